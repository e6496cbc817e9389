//! Datasets, their versions and outputs.

use super::{CONFIRM, CURSOR_AFTER_NAME, CURSOR_AFTER_PLACE, LIMIT, TENANT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Description, Parameter, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{
    CurrentVersion, CutOver, Dataset, Datasets, PartitionOutputs, RollBack, Seal, VersionDeleted,
    VersionOutputs, VersionSealed,
};

const TAG: &str = "outputs";

const DATASET: &str = r#"{"dataset":"sales","current":"2025-12-21","cut_over_at":"2025-12-21T13:00:00Z","versions":[{"version":"2025-12-20","outputs":2,"updated_at":"2025-12-20T12:00:00Z"},{"version":"2025-12-21","outputs":2,"updated_at":"2025-12-21T12:00:00Z"}],"history":[{"version":"2025-12-21","at":"2025-12-21T13:00:00Z"},{"version":"2025-12-20","at":"2025-12-20T13:00:00Z"}]}"#;

macro_rules! outputs {
    ($between:literal) => {
        concat!(
            r#"{"dataset":"sales","version":"2025-12-21","#,
            $between,
            r#""outputs":[{"partition_key":"eu","mode":"append","dedupe_key":"orders/0/12","#,
            r#""location":"s3://sales/eu/0001","digest":"sha256:9f86","committed_at":"2025-12-21T12:00:00Z","#,
            r#""message":{"topic":"orders","partition":0,"offset":12,"attempt":1}}]}"#
        )
    };
}

const fn looking(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    query: &'static [Parameter],
    answers: &'static [Answer],
    problems: &'static [Code],
) -> Description {
    Description {
        operation,
        method: Method::Get,
        path,
        id,
        tag: TAG,
        summary,
        detail,
        query,
        is_keyed: false,
        body: None,
        answers,
        problems,
    }
}

const fn moving(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    about: [&'static str; 2],
    words: Words,
    answers: &'static [Answer],
) -> Description {
    let problems = &[Code::OutputUnknown, Code::VersionDiffers, Code::DiskFull];
    Description {
        method: Method::Post,
        body: Body::json(words),
        ..looking(operation, path, id, about, &[], answers, problems)
    }
}

pub(super) static LINES: [Description; 8] = [
    looking(
        Operation::GetOutput,
        "/v2/outputs/{dataset}/{version}/{partition_key}",
        "get_output",
        [
            "The outputs of one partition key",
            "One if they replace each other; all in order of commit if they are appended. The version `current` reads \
             the current one and names it.",
        ],
        &[TENANT, LIMIT, CURSOR_AFTER_PLACE],
        &[Answer::json(
            200,
            "One page.",
            Words::answer::<PartitionOutputs<'static>>(outputs!(r#""partition_key":"eu","mode":"append","#)),
        )],
        &[Code::OutputUnknown],
    ),
    looking(
        Operation::GetVersion,
        "/v2/outputs/{dataset}/{version}",
        "get_version",
        [
            "The outputs of a version",
            "In order of their partition keys. The version `current` reads the current one and names it; ask for that \
             name to turn pages in the same one.",
        ],
        &[TENANT, LIMIT, CURSOR_AFTER_PLACE],
        &[Answer::json(200, "One page.", Words::answer::<VersionOutputs<'static>>(outputs!("")))],
        &[Code::OutputUnknown],
    ),
    looking(
        Operation::GetDataset,
        "/v2/outputs/{dataset}",
        "get_dataset",
        [
            "One dataset",
            "Its current version, its versions in order of their names, and what was current before.",
        ],
        &[TENANT, LIMIT, CURSOR_AFTER_NAME],
        &[Answer::json(
            200,
            "The dataset, with one page of its versions.",
            Words::answer::<Dataset<'static>>(DATASET),
        )],
        &[Code::OutputUnknown],
    ),
    looking(
        Operation::ListDatasets,
        "/v2/outputs",
        "list_datasets",
        ["The datasets of a tenant", "In order of their names."],
        &[TENANT, LIMIT, CURSOR_AFTER_NAME],
        &[Answer::json(
            200,
            "One page.",
            Words::answer::<Datasets<'static>>(
                r#"{"datasets":[{"dataset":"sales","current":"2025-12-21","versions":2,"outputs":4}]}"#,
            ),
        )],
        &[],
    ),
    moving(
        Operation::CutOver,
        "/v2/outputs/{dataset}/cutover",
        "cut_over",
        [
            "Make a version the current one",
            "Readers of `current` see all of it from now on, and nothing moves in it any more: it is sealed. With `expect` \
             only if that version is current now. Safe to repeat.",
        ],
        Words::request::<CutOver<'_>>(
            |body| told(CutOver::from_json(body)),
            r#"{"version":"2025-12-21","expect":"2025-12-20"}"#,
        ),
        &[Answer::json(
            200,
            "The version is current.",
            Words::answer::<CurrentVersion<'static>>(
                r#"{"dataset":"sales","current":"2025-12-21","previous":"2025-12-20","changed":true}"#,
            ),
        )],
    ),
    moving(
        Operation::SealVersion,
        "/v2/outputs/{dataset}/seal",
        "seal_version",
        [
            "Let nothing move in a version any more",
            "Commits that would move or add an output in it are refused with `VERSION_SEALED`, whichever caller sends \
             them. It can still be cut over to, rolled back to, and deleted. Safe to repeat.",
        ],
        Words::request::<Seal<'_>>(|body| told(Seal::from_json(body)), r#"{"version":"2025-12-21"}"#),
        &[Answer::json(
            200,
            "The version is sealed.",
            Words::answer::<VersionSealed<'static>>(
                r#"{"dataset":"sales","version":"2025-12-21","outputs":2,"changed":true}"#,
            ),
        )],
    ),
    moving(
        Operation::RollBack,
        "/v2/outputs/{dataset}/rollback",
        "roll_back",
        [
            "Make the version before the current one again",
            "`from` is the version that is current and will not be, so that the same call again goes back no further.",
        ],
        Words::request::<RollBack<'_>>(|body| told(RollBack::from_json(body)), r#"{"from":"2025-12-21"}"#),
        &[Answer::json(
            200,
            "The version before is current.",
            Words::answer::<CurrentVersion<'static>>(
                r#"{"dataset":"sales","current":"2025-12-20","previous":"2025-12-21","changed":true}"#,
            ),
        )],
    ),
    Description {
        method: Method::Delete,
        ..looking(
            Operation::DeleteVersion,
            "/v2/outputs/{dataset}/{version}",
            "delete_version",
            [
                "Forget a version with all its outputs",
                "It cannot be undone, and asks for the name of the version once more. What lies at the locations is \
                 not touched. The current version cannot be deleted.",
            ],
            &[TENANT, CONFIRM],
            &[Answer::json(
                200,
                "The version is forgotten.",
                Words::answer::<VersionDeleted>(r#"{"deleted":2}"#),
            )],
            &[Code::ConfirmationRequired, Code::OutputUnknown, Code::VersionInUse, Code::DiskFull],
        )
    },
];

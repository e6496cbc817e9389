//! Tenants.

use super::{CURSOR_AFTER_NAME, LIMIT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Tenant, TenantLimits, Tenants};

const TAG: &str = "tenants";

macro_rules! tenant {
    () => {
        r#"{"tenant":"acme","limits":{"requests_per_second":500,"topics":20,"messages":1000000},"topics":3,"messages":1207,"bytes":482800,"effects":96}"#
    };
}

const ONE: Answer = Answer::json(200, "The tenant.", Words::answer::<Tenant<'static>>(tenant!()));

pub(super) static LINES: [Description; 3] = [
    Description {
        operation: Operation::ListTenants,
        method: Method::Get,
        path: "/v2/tenants",
        id: "list_tenants",
        tag: TAG,
        summary: "The tenants",
        detail: "Those that have topics or limits, with what they have and may have. A key that is bound to tenants \
                 sees its own.",
        query: &[LIMIT, CURSOR_AFTER_NAME],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page.",
            Words::answer::<Tenants<'static>>(concat!(r#"{"tenants":["#, tenant!(), "]}")),
        )],
        problems: &[],
    },
    Description {
        operation: Operation::GetTenant,
        method: Method::Get,
        path: "/v2/tenants/{tenant}",
        id: "get_tenant",
        tag: TAG,
        summary: "One tenant",
        detail: "What it has and may have. A tenant of which nothing is known has nothing and no limits.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[ONE],
        problems: &[],
    },
    Description {
        operation: Operation::LimitTenant,
        method: Method::Put,
        path: "/v2/tenants/{tenant}",
        id: "limit_tenant",
        tag: TAG,
        summary: "Say how much a tenant may have",
        detail: "In the place of what was said before: a limit that is not given is lifted. What there is stays when a \
                 limit is lowered; what would exceed it is refused with `QUOTA_EXCEEDED`. Dead letters are kept \
                 whatever the limit.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<TenantLimits>(
            |body| told(TenantLimits::from_json(body)),
            r#"{"requests_per_second":500,"topics":20,"messages":1000000}"#,
        )),
        answers: &[ONE],
        problems: &[Code::LimitReached, Code::DiskFull],
    },
];

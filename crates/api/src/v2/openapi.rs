//! The OpenAPI document, built from the table of operations and the types.

use std::collections::BTreeMap;

use utoipa::openapi::content::{Content as Media, ContentBuilder};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::info::{InfoBuilder, License};
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter as PathParameter, ParameterBuilder, ParameterIn, PathItem,
    PathsBuilder,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ArrayBuilder, ComponentsBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, OpenApiBuilder, Ref, RefOr, Required};
use utoipa::{PartialSchema, ToSchema};

use super::envelope::PARTITION_MAX;
use super::limits::{
    BATCH_MESSAGES_MAX, IDEMPOTENCY_HEADER_BYTES_MAX, IDENTITY_BYTES_MAX, NAME_BYTES_MAX, OFFSET_MAX,
};
use super::operation::{
    Answer, Body, Content, Description, Forms, Method, Schemas, Shape, Words, descriptions,
};
use super::problem::Problem;
use super::shape;
use crate::catalogue::Code;
use crate::moment::Moment;

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const EVENTS: &str = "text/event-stream";

/// Refusals of any call.
const PROBLEMS_OF_ALL: [Code; 7] = [
    Code::InvalidArgument,
    Code::ForeignOrigin,
    Code::ForeignHost,
    Code::UrlTooLong,
    Code::Overloaded,
    Code::Unavailable,
    Code::Internal,
];
/// Refusals of calls with a body.
const PROBLEMS_OF_BODIES: [Code; 4] =
    [Code::InvalidJson, Code::RequestTimeout, Code::BodyTooLarge, Code::UnsupportedMediaType];

/// Refusals of calls that a server may ask a key for.
const PROBLEMS_OF_KEYS: [Code; 2] = [Code::Unauthenticated, Code::Forbidden];
/// How a key is shown, by the name that calls refer to it.
const KEY_SCHEME: &str = "key";

const ABOUT: &str = "The native API of DriftQ, a durable message broker.\n\nTimes are RFC 3339 in UTC, durations are \
whole milliseconds, and lengths of texts count bytes of UTF-8. Unknown fields and parameters are refused, and `null` \
means the same as not given unless a field says otherwise. Errors are problem details (RFC 9457); their `code` is the \
stable part. Every call that changes something can be repeated safely. A server that asks for keys takes one as \
`Authorization: Bearer dq_…`; what a key must allow stands with each call.";

/// The document of `/v2`, in OpenAPI 3.1.
#[must_use]
pub fn openapi() -> OpenApi {
    let (mut schemas, mut refusals) = (Schemas::new(), BTreeMap::new());
    let mut paths = PathsBuilder::new();
    for description in descriptions() {
        let item = PathItem::new(
            http_method(description.method),
            operation(description, &mut schemas, &mut refusals),
        );
        paths = paths.path(description.path, item);
    }
    let problem = Problem::schema();
    schemas.insert(Problem::name().into_owned(), problem);
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    let info = InfoBuilder::new()
        .title("DriftQ")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license));
    let components =
        schemas.into_iter().fold(ComponentsBuilder::new(), |all, (name, schema)| all.schema(name, schema));
    let components =
        refusals.into_iter().fold(components, |all, (name, response)| all.response(name, response));
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("dq_<id>_<secret>").build();
    let components = components.security_scheme(KEY_SCHEME, SecurityScheme::Http(scheme));
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).build()
}

/// The document as the server sends it and the repository keeps it.
#[must_use]
pub fn openapi_json() -> String {
    let mut text = openapi().to_pretty_json().expect("the document has a JSON form");
    text.push('\n');
    text
}

const fn http_method(method: Method) -> HttpMethod {
    match method {
        Method::Get => HttpMethod::Get,
        Method::Put => HttpMethod::Put,
        Method::Post => HttpMethod::Post,
        Method::Patch => HttpMethod::Patch,
        Method::Delete => HttpMethod::Delete,
    }
}

/// Refusals that calls share, by name.
type Refusals = BTreeMap<String, Response>;

fn operation(description: &Description, schemas: &mut Schemas, refusals: &mut Refusals) -> OperationBuilder {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(description.id))
        .tag(description.tag)
        .summary(Some(description.summary))
        .description(Some(description.detail))
        .parameters(Some(parameters(description)));
    // Without keys a server is open: the requirement is optional, and names the action.
    if let Some(action) = description.operation.needs().action {
        let required = SecurityRequirement::new(KEY_SCHEME, [action.name()]);
        operation = operation.securities(Some([SecurityRequirement::default(), required]));
    }
    if let Some(body) = &description.body {
        operation = operation.request_body(Some(request_body(body, schemas)));
    }
    for answer in description.answers {
        operation = operation.response(answer.status.to_string(), good(answer, schemas));
    }
    for (status, codes) in problems(description) {
        let codes_named = codes.iter().map(|code| code.entry().code).collect::<Vec<_>>().join(".");
        let name = format!("{status}.{codes_named}");
        operation = operation.response(status.to_string(), Ref::from_response_name(&name));
        refusals.entry(name).or_insert_with(|| bad(&codes));
    }
    let other = || {
        let other = ResponseBuilder::new().description("Any other problem.");
        other.content(PROBLEM_TYPE, problem(None)).header("X-Request-Id", request_id()).build()
    };
    refusals.entry(OTHER.to_owned()).or_insert_with(other);
    operation.response("default", Ref::from_response_name(OTHER))
}

/// The name of the refusal that no call foresees.
const OTHER: &str = "other";

const PROBLEM_TYPE: &str = crate::PROBLEM;

/// The refusals of a call by their status.
fn problems(description: &Description) -> BTreeMap<u16, Vec<Code>> {
    let mut codes: Vec<Code> =
        PROBLEMS_OF_ALL.into_iter().chain(description.problems.iter().copied()).collect();
    if description.body.is_some() {
        codes.extend(PROBLEMS_OF_BODIES);
    }
    if description.operation.needs().action.is_some() {
        codes.extend(PROBLEMS_OF_KEYS);
    }
    if description.path.contains("{topic}") {
        codes.push(Code::TopicUnknown);
    }
    let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
    // In the order of the catalogue, each once.
    for code in Code::ALL.into_iter().filter(|code| codes.contains(code)) {
        by_status.entry(code.entry().status).or_default().push(code);
    }
    by_status
}

fn parameters(description: &Description) -> Vec<PathParameter> {
    let in_path = description.path.split(['{', '}']).skip(1).step_by(2).map(path_parameter);
    let in_query = description.query.iter().map(|parameter| {
        let required = if parameter.is_required { Required::True } else { Required::False };
        ParameterBuilder::new()
            .name(parameter.name)
            .parameter_in(ParameterIn::Query)
            .required(required)
            .description(Some(parameter.description))
            .schema(Some(schema_of(&parameter.shape)))
            .build()
    });
    let mut all: Vec<PathParameter> = in_path.chain(in_query).collect();
    if description.is_keyed {
        let key = shape::text(1, IDEMPOTENCY_HEADER_BYTES_MAX).pattern(Some("^[!-~]([ -~]*[!-~])?$"));
        all.push(header(
            "Idempotency-Key",
            "Names this request: the same key again is answered with the first outcome, and refused with \
             `KEY_REUSED` if the request is another one.",
            key,
        ));
    }
    let about =
        "Names this request in the answer and in the server's log; the server makes one up if there is none.";
    all.push(header("X-Request-Id", about, ObjectBuilder::new().schema_type(Type::String)));
    all
}

fn schema_of(shape: &Shape) -> ObjectBuilder {
    match shape {
        Shape::Number(least, most) => shape::number(*least, *most),
        Shape::Text(least, most) => shape::text(*least, *most),
        Shape::Matching(least, most, pattern) => shape::text(*least, *most).pattern(Some(*pattern)),
        Shape::Words(words) => shape::words(&words()),
        Shape::Time => match Moment::schema() {
            RefOr::T(Schema::Object(schema)) => schema.into(),
            _ => unreachable!("a moment is written as a text"),
        },
    }
}

fn header(name: &str, description: &str, schema: ObjectBuilder) -> PathParameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn path_parameter(name: &str) -> PathParameter {
    let (schema, description) = match name {
        "partition" => (shape::number(0, PARTITION_MAX), "The partition."),
        "offset" => (shape::number(0, OFFSET_MAX), "The offset."),
        "topic" => (shape::text(1, NAME_BYTES_MAX), "The name of the topic."),
        "group" => (shape::text(1, NAME_BYTES_MAX), "The name of the group."),
        "dataset" => (shape::text(1, NAME_BYTES_MAX), "The name of the dataset."),
        "version" => (shape::text(1, NAME_BYTES_MAX), "The name of the version."),
        "partition_key" => (shape::text(1, NAME_BYTES_MAX), "The part of the version."),
        "run_id" => (shape::text(1, IDENTITY_BYTES_MAX), "The name of the run."),
        _ => (shape::text(1, NAME_BYTES_MAX), "Its name."),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn media(schema: impl Into<RefOr<Schema>>, example: &str) -> Media {
    let example = serde_json::from_str(example).expect("examples are JSON, which a test checks");
    ContentBuilder::new().schema(Some(schema)).example(Some(example)).build()
}

/// The media types of one object or many.
fn forms(words: &Words, forms: Forms, schemas: &mut Schemas) -> Vec<(&'static str, Media)> {
    let one = (words.schema)(schemas);
    let array =
        || ArrayBuilder::new().items(one.clone()).min_items(Some(1)).max_items(Some(BATCH_MESSAGES_MAX));
    match forms {
        Forms::One => vec![(JSON, media(one, words.example))],
        Forms::OneOrMany => {
            let either = OneOfBuilder::new().item(one.clone()).item(array());
            vec![(JSON, media(either, words.example)), (LINES, media(one, words.example))]
        }
    }
}

fn request_body(body: &Body, schemas: &mut Schemas) -> RequestBody {
    let required = if body.is_required { Required::True } else { Required::False };
    let request = RequestBodyBuilder::new().required(Some(required));
    let media = forms(&body.words, body.forms, schemas).into_iter();
    media.fold(request, |request, (name, media)| request.content(name, media)).build()
}

fn good(answer: &Answer, schemas: &mut Schemas) -> Response {
    let response =
        ResponseBuilder::new().description(answer.description).header("X-Request-Id", request_id());
    let media = match &answer.content {
        Content::Nothing => Vec::new(),
        Content::Json(words, kind) => forms(words, *kind, schemas),
        Content::Events(words) => vec![(EVENTS, media((words.schema)(schemas), words.example))],
        Content::Lines(words) => vec![(LINES, media((words.schema)(schemas), words.example))],
        Content::Document => {
            vec![(
                JSON,
                ContentBuilder::new().schema(Some(ObjectBuilder::new().schema_type(Type::Object))).build(),
            )]
        }
    };
    media.into_iter().fold(response, |response, (name, media)| response.content(name, media)).build()
}

fn bad(codes: &[Code]) -> Response {
    let lines = codes.iter().map(|code| format!("`{}`: {}.", code.entry().code, code.entry().title));
    let description = lines.collect::<Vec<_>>().join(" ");
    ResponseBuilder::new()
        .description(description)
        .content(PROBLEM_TYPE, problem(codes.first().copied()))
        .header("X-Request-Id", request_id())
        .build()
}

fn problem(code: Option<Code>) -> Media {
    let schema = RefOr::<Schema>::Ref(Ref::from_schema_name(Problem::name()));
    let example = code.map(|code| {
        let fault = crate::fault::Fault::new(code, code.entry().title);
        serde_json::to_value(fault.v2()).expect("texts and numbers always have a JSON form")
    });
    ContentBuilder::new().schema(Some(schema)).example(example).build()
}

fn request_id() -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(text).description(Some("Names the request in the server's log.")).build()
}

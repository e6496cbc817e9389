//! The reference of metrics.

use driftq::MetricFamily;

/// The page.
pub(crate) fn page(families: &[MetricFamily]) -> String {
    let mut page = "# Metrics\n\n\
        Everything that `GET /metrics` can say, as Prometheus reads it, written by the server itself. What is about a \
        router or about connectors is there only where they are. The four names without a prefix are those of the \
        first broker, and do not change.\n\n\
        [ops/](../../ops) has a dashboard for Grafana and alert rules for Prometheus that are made of these.\n\n\
        | name | kind | what it counts |\n|---|---|---|\n"
        .to_owned();
    for MetricFamily { name, kind, help } in families {
        page.push_str(&format!("| `{name}` | {kind} | {} |\n", help.replace('|', "\\|")));
    }
    page
}

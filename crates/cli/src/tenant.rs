//! Whose something is.

use crate::client::Path;

#[derive(clap::Args, Clone, Debug)]
pub(super) struct Tenant {
    /// Whose it is; nobody's in particular if not given
    #[arg(
        long,
        visible_alias = "tenant-id",
        env = "DRIFTQ_TENANT_ID",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        value_name = "ID"
    )]
    pub(super) tenant: String,
}

impl Tenant {
    /// The path of something of this tenant.
    pub(super) fn of(&self, path: Path) -> Path {
        path.with_some("tenant_id", Some(&*self.tenant).filter(|tenant| !tenant.is_empty()))
    }
}

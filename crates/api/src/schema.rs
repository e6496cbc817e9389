//! Where types get their schemas from: from utoipa if the document is built, else from nowhere.

#[cfg(not(feature = "openapi"))]
pub(crate) use driftq_api_derive::ToSchema;
#[cfg(feature = "openapi")]
pub(crate) use utoipa::ToSchema;

/// What any type has where no document is built.
#[cfg(not(feature = "openapi"))]
pub(crate) trait ToSchema {}

#[cfg(not(feature = "openapi"))]
impl<T: ?Sized> ToSchema for T {}

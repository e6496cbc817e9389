//! Exports: a bounded selection becomes files, all of them or none.

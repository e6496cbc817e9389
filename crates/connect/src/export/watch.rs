//! What an export tells while it runs.

/// A step that is behind it. A process that ends between two of them leaves nothing that readers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The effect is ours.
    Begun,
    /// The place honours conditions.
    Probed,
    /// The bounds of the selection are written down.
    Planned,
    /// A part is whole, where no reader looks.
    Staged(usize),
    /// A part has its final name.
    Placed(usize),
    /// The manifest has its final name.
    Described,
    /// The effect has ended, and the pointer names the manifest.
    Committed,
}

/// Is told how far an export is.
pub trait Watch: Send + Sync {
    /// A step is done.
    fn step(&self, _step: Step) {}

    /// How many rows there may be at most, if that is known.
    fn expects(&self, _rows: u64) {}

    /// So many rows more are written.
    fn wrote(&self, _rows: u64) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watch for Silent {}

//! Messages lent by an answer that is still on its way. If its connection breaks before the socket has taken all of it,
//! no worker has them: they go back at once and no attempt is used.

use driftq_engine::Broker;
use driftq_engine::core::Receipt;

/// What one answer lends. Dropping it gives everything back.
pub(crate) struct Loan {
    broker: Broker,
    receipts: Vec<Receipt>,
}

impl Loan {
    pub(crate) const fn new(broker: Broker, receipts: Vec<Receipt>) -> Self {
        Self { broker, receipts }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.receipts.is_empty()
    }

    /// One more.
    pub(crate) fn add(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
    }

    /// The socket has taken the whole answer: the client has the messages, as far as the server can know.
    pub(crate) fn arrived(mut self) {
        self.receipts.clear();
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if !self.receipts.is_empty() {
            self.broker.give_back(std::mem::take(&mut self.receipts));
        }
    }
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").field("receipts", &self.receipts.len()).finish_non_exhaustive()
    }
}

//! Outbound deliveries: webhooks, HTTP calls and e-mails, each an effect.

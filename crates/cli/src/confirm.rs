//! What cannot be undone is asked for twice.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result};

use crate::{Exit, Fault};

/// Returns if `yes` was given, or if the user at the terminal types the name. `what` says what will happen.
pub(super) fn by_name(yes: bool, what: &str, name: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let fault =
            Fault::new(Exit::Usage, format!("this would {what}, and there is no terminal to confirm it"));
        return Err(fault.help("it cannot be undone; add --yes if it is meant").into());
    }
    eprint!("This will {what}. It cannot be undone.\nType the name `{name}` to confirm: ");
    io::stderr().flush().context("asking")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("reading the answer")?;
    if answer.trim() == name {
        return Ok(());
    }
    Err(Fault::new(Exit::Usage, "that is not the name; nothing was done").into())
}

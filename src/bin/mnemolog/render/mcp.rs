//! What people read of `mcp`: where a server serves what, and what became of a client's configuration.

use std::path::Path;

use mnemolog::error::Damage;

/// How much of a summary a list shows, its mark included.
const SUMMARY_CODE_POINTS: usize = 120;
const SUMMARY_CUT: &str = "…(summary cut)";

/// The first message was none that a session can begin with.
pub(crate) const NOT_BEGUN: &str =
    "the client's first message was neither a request to initialize nor one that names its protocol version";

/// A server has begun.
pub(crate) fn serving(store: &Path, workspace: &str, over: &str) -> String {
    let workspace =
        if workspace.is_empty() { "the root workspace".to_owned() } else { format!("workspace {workspace}") };
    format!("serving {} ({workspace}) over {over}", store.display())
}

/// The token that was made for this run.
pub(crate) fn token(token: &str) -> String {
    format!("the token of this run is {token}")
}

/// What is read may not be all. For a model.
pub(crate) fn damaged(damage: &Damage) -> String {
    format!(
        "(the store is damaged: what was before frame {} is shown — tell the user to run `mnemolog verify`.)",
        damage.frame
    )
}

/// A summary as a list shows it: one line, fitted.
pub(crate) fn summary(summary: Option<&str>) -> String {
    let folded = super::line(summary.unwrap_or_default());
    if folded.is_empty() {
        return "(no summary)".to_owned();
    }
    if folded.chars().count() <= SUMMARY_CODE_POINTS {
        return folded;
    }
    let kept = SUMMARY_CODE_POINTS - SUMMARY_CUT.chars().count();
    let mut fitted: String = folded.chars().take(kept).collect();
    fitted.push_str(SUMMARY_CUT);
    fitted
}

/// A client's configuration was written.
pub(crate) fn configured(file: &Path, backup: Option<&Path>, replaced: bool) -> String {
    let what = if replaced { "replaced the entry in" } else { "wrote" };
    match backup {
        None => format!("{what} {}", file.display()),
        Some(backup) => format!("{what} {}; as it was, it is {}", file.display(), backup.display()),
    }
}

/// A client's configuration is as it should be.
pub(crate) fn configured_already(file: &Path) -> String {
    format!("{} has it already; nothing was written", file.display())
}

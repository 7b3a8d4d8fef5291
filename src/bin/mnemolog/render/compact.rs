//! What people read about dropped history.

use super::count;
use crate::compact::{Answer, PolicyAnswer};

/// What was dropped, or would be.
pub(crate) fn compacted(answer: &Answer) -> String {
    let Answer { oldest, base_bytes, kept_bytes, used_before, used_after, needs_bytes, .. } = answer;
    let frames = count(answer.frames, "frame");
    let head = match (answer.frames, answer.dry_run) {
        (0, _) => return format!("there is nothing to drop: the oldest frame is {oldest}"),
        (_, true) => format!("would drop {frames}: frame {oldest} would be the oldest"),
        (_, false) => format!("dropped {frames}: frame {oldest} is the oldest now"),
    };
    let mut text = format!(
        "{head}\nstate     {base_bytes} bytes, and {kept_bytes} of kept frames\n\
         log       {used_before} bytes in use before, {used_after} afterwards"
    );
    if answer.dry_run {
        text.push_str(&format!("\nneeds     {needs_bytes} bytes of free space meanwhile"));
    }
    text
}

/// The policy that was set.
pub(crate) fn policy(answer: &PolicyAnswer) -> String {
    match &answer.policy {
        Some(policy) => format!("the store keeps {policy} of history; compact --policy drops what is older"),
        None => "the store keeps all of its history".to_owned(),
    }
}

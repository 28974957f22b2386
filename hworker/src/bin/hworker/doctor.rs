//! What is wrong, what to do, and the mends, each shown before it is made.

use hworker::{Finding, Repair, Severity};

use crate::Context;
use crate::output::{Tone, tell};
use crate::rows::number;
use crate::stop::Stop;

pub(crate) async fn run(context: &Context, repair: bool) -> Result<(), Stop> {
    let mut findings = context.client.doctor().await?;
    // Behind a key of another type there may be more to mend.
    while repair && mend(context, &findings).await? > 0 {
        findings = context.client.doctor().await?;
    }
    show(context, &findings)?;
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Fail) => Err(Stop::doctor(9)),
        Some(Severity::Warn) => Err(Stop::doctor(8)),
        _ => Ok(()),
    }
}

fn show(context: &Context, findings: &[Finding]) -> Result<(), Stop> {
    let tone = |finding: &Finding| match finding.severity {
        Severity::Ok => Tone::Good,
        Severity::Skip => Tone::Plain,
        Severity::Warn => Tone::Doubtful,
        Severity::Fail => Tone::Bad,
    };
    context.output.toned_rows(&["", "ABOUT", "FOUND"], findings, tone, |finding| {
        let text = match &finding.repair {
            Some(repair) => format!("{}. --repair would {repair}", finding.text),
            None => finding.text.clone(),
        };
        vec![finding.severity.to_string(), finding.about.clone(), text]
    })
}

/// Gives how much it changed.
async fn mend(context: &Context, findings: &[Finding]) -> Result<u64, Stop> {
    let mut all = 0;
    let of_audit = |finding: &&Finding| finding.repair.as_ref().is_some_and(Repair::is_of_audit);
    // The others stand in it.
    let (first, others): (Vec<_>, Vec<_>) = findings.iter().partition(of_audit);
    for finding in first.into_iter().chain(others) {
        let Some(repair) = &finding.repair else { continue };
        tell(&format!("{}: {}", finding.about, finding.text));
        let what = repair.to_string();
        match context.ask(&what, "", 1).await {
            Err(refused) if refused.is_no() => {
                tell("left as it is");
                continue;
            }
            asked => asked?,
        }
        let mend = async {
            let mended = context.client.repair(repair).await?;
            Ok((mended, format!("changed {mended}")))
        };
        let mended = if repair.is_of_audit() {
            mend.await?.0
        } else {
            context.audited("repair", &finding.about, &what, mend).await?
        };
        all += mended;
        tell(&format!("changed {}", number(mended)));
    }
    Ok(all)
}

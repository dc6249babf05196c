//! Agents as jobs of Slurm: submitted as arrays when trials wait, left when none do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use crate::cluster::hub::Hub;
use crate::config::shell;
use crate::runner::threads;
use crate::study::cluster::SlurmSpec;

/// Interval between queries: schedulers serve many users.
const QUERY: Duration = Duration::from_secs(30);

/// How long an agent may have nothing to do.
const IDLE: Duration = Duration::from_secs(60);

/// Longest wait for the end of the jobs that wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long before its end a job is told, so that its trials can save.
const NOTICE: u32 = 90;

/// The jobs of a study.
pub(super) struct Slurm {
    spec: SlurmSpec,
    /// Name of the jobs, by which the next runner finds them, too.
    name: String,
    study: String,
    file: PathBuf,
    /// What Slurm said last: jobs that wait or run.
    jobs: BTreeMap<String, Job>,
    asked: Option<Instant>,
    answer: Option<Receiver<Result<String, String>>>,
    is_known: bool,
    submission: Option<Receiver<Result<String, String>>>,
    /// When the last submission was answered, and how many agents had come before it.
    submitted: Option<(Instant, u64)>,
    /// Submissions in a row that failed, or whose jobs ended before an agent came.
    fruitless: u32,
    not_before: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    state: String,
    reason: String,
    count: u64,
}

/// The words of `sbatch` for an array of agents.
pub(super) fn submission(
    spec: &SlurmSpec,
    study: &str,
    program: &Path,
    file: &Path,
    count: u32,
) -> Vec<String> {
    let mut words = vec![
        "sbatch".to_owned(),
        "--parsable".to_owned(),
        format!("--job-name={}", job_name(study, file)),
        format!("--array=1-{count}"),
        "--ntasks=1".to_owned(),
        "--requeue".to_owned(),
        // To the step, which is the agent; its trials do not notice this one.
        format!("--signal=URG@{NOTICE}"),
        format!("--output={}", file.with_file_name("agent-%A_%a.log").display()),
    ];
    let options = [
        ("partition", spec.partition.clone()),
        ("account", spec.account.clone()),
        ("time", spec.time.clone()),
        ("gres", spec.gres.clone()),
        ("cpus-per-task", spec.cpus.map(|cpus| cpus.to_string())),
        ("mem", spec.memory.clone()),
    ];
    for (name, value) in options {
        words.extend(value.map(|value| format!("--{name}={value}")));
    }
    words.extend(spec.extra.iter().cloned());
    // Without quotes there is nothing that a path could end.
    let quoted = |path: &Path| shell::in_quotes(&path.display().to_string());
    // As a step it has the signals of preemption at once, which a batch script has not.
    // Steps do not inherit it since Slurm 22.05.
    let cpus = spec.cpus.map_or_else(String::new, |cpus| format!("--cpus-per-task={cpus} "));
    let agent = format!("exec srun --ntasks=1 {cpus}{} agent {}", quoted(program), quoted(file));
    words.push(format!("--wrap={agent}"));
    words
}

/// The name of a study's jobs: two stores may have studies of the same name.
fn job_name(study: &str, file: &Path) -> String {
    let digest = blake3::hash(file.as_os_str().as_encoded_bytes()).to_hex();
    format!("hpsearch-{study}-{}", &digest[..8])
}

impl Slurm {
    pub fn new(spec: SlurmSpec, study: &str, file: &Path) -> Self {
        Slurm {
            spec,
            name: job_name(study, file),
            study: study.to_owned(),
            file: file.to_owned(),
            jobs: BTreeMap::new(),
            asked: None,
            answer: None,
            is_known: false,
            submission: None,
            submitted: None,
            fruitless: 0,
            not_before: None,
        }
    }

    /// Asks Slurm now and then, on a thread, and submits what is missing.
    pub fn look_after(&mut self, hub: &Hub, demand: u64) {
        if demand == 0 {
            hub.dismiss_idle(IDLE);
        }
        if let Some(Ok(answer)) = self.submission.as_ref().map(Receiver::try_recv) {
            self.submission = None;
            match answer {
                Ok(_) => self.submitted = Some((Instant::now(), hub.agents_so_far())),
                Err(why) => {
                    hub.tell_trouble("slurm", &why);
                    self.pause();
                }
            }
        }
        if let Some(answer) = &self.answer {
            let Ok(answer) = answer.try_recv() else { return };
            self.answer = None;
            match answer {
                Ok(text) => self.take(&text, hub),
                Err(why) => {
                    // What is there is not known.
                    hub.tell_trouble("slurm", &why);
                    return;
                }
            }
            if self.judge(hub) {
                self.submit(hub, demand);
            }
        }
        if self.asked.is_none_or(|asked| asked.elapsed() >= QUERY) {
            self.asked = Some(Instant::now());
            let words = ["squeue", "--me", "--all", "--noheader", "--format=%i|%T|%r"];
            let name = format!("--name={}", self.name);
            let words = words.map(str::to_owned).into_iter().chain([name]);
            self.answer = run(words.collect()).ok();
        }
    }

    /// Takes in the list of jobs, and says why some wait.
    fn take(&mut self, text: &str, hub: &Hub) {
        self.is_known = true;
        self.jobs = jobs_of(text);
        let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
        for job in self.jobs.values().filter(|job| job.state == "PENDING") {
            *waiting.entry(&job.reason).or_default() += job.count;
        }
        for (reason, count) in waiting {
            let what = if count == 1 { "1 job waits" } else { &format!("{count} jobs wait") };
            hub.tell_once("slurm", reason, &format!("{what}: {reason}"));
        }
    }

    /// Looks what became of the last submission; whether there may be another one.
    fn judge(&mut self, hub: &Hub) -> bool {
        if self.submission.is_some() {
            // A controller that does not answer is waited for.
            return false;
        }
        if let Some((at, before)) = self.submitted {
            if self.asked.is_none_or(|asked| asked < at) {
                // What was listed may be older than these jobs.
                return false;
            }
            if hub.agents_so_far() > before {
                (self.submitted, self.fruitless, self.not_before) = (None, 0, None);
            } else if self.jobs.is_empty() {
                self.submitted = None;
                let logs = self.file.with_file_name("agent-*.log");
                let why = format!("jobs end before an agent comes: see {}", logs.display());
                hub.tell_trouble("slurm", &why);
                self.pause();
            }
        }
        self.not_before.is_none_or(|moment| moment <= Instant::now())
    }

    /// Submits nothing for a while, longer each time.
    fn pause(&mut self) {
        self.fruitless = (self.fruitless + 1).min(6);
        self.not_before = Some(Instant::now() + QUERY * (1 << self.fruitless));
    }

    fn submit(&mut self, hub: &Hub, demand: u64) {
        let there: u64 = self.jobs.values().map(|job| job.count).sum();
        let waiting: u64 =
            self.jobs.values().filter(|job| job.state == "PENDING").map(|job| job.count).sum();
        let room = u64::from(self.spec.max_jobs).saturating_sub(there);
        // Jobs that wait will take trials, too.
        let missing = demand.saturating_sub(waiting).min(room);
        let Some(count) = u32::try_from(missing).ok().filter(|count| *count > 0 && self.is_known)
        else {
            return;
        };
        let own = std::env::current_exe().unwrap_or_else(|_| "hpsearch".into());
        if !own.exists() {
            let why = format!(
                "`{}` was replaced since this run began: stop it and run the study again",
                own.display()
            );
            return hub.tell_trouble("slurm", &why);
        }
        let words = submission(&self.spec, &self.study, &own, &self.file, count);
        self.submission = run(words).ok();
    }

    /// Cancels the jobs that wait; those that run end by themselves.
    pub fn shut_down(&mut self) {
        let words = ["scancel", "--me", "--state=PENDING", &format!("--name={}", self.name)];
        // Without Slurm there is nothing to cancel; a job that starts finds no runner, and ends.
        let cancelled = run(words.map(str::to_owned).to_vec());
        let _none_left = cancelled.map(|answer| answer.recv_timeout(PATIENCE));
    }
}

/// Runs a command of Slurm on a thread: a busy scheduler takes seconds. The answer is what it
/// printed, or why it failed.
fn run(words: Vec<String>) -> std::io::Result<Receiver<Result<String, String>>> {
    let (tell, answer) = bounded(1);
    threads::spawn("slurm", move || {
        let _nobody_waits = tell.send(output(&words));
    })?;
    Ok(answer)
}

fn output(words: &[String]) -> Result<String, String> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in hidden_variables(names.collect()) {
        command.env_remove(name);
    }
    let output = command.output().map_err(|error| format!("`{}`: {error}", words[0]))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed: {}", words[0], said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The variables of the runner that Slurm's commands must not see, of all `names`: those that give
/// options which contradict the command lines, and those of the job in which the runner itself is,
/// which `sbatch` would pass on to the agents' jobs.
fn hidden_variables(names: Vec<String>) -> Vec<String> {
    // How to reach Slurm, which a job does not set.
    const REACH: [&str; 4] = ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"];
    const CONTRADICTING: [&str; 2] = ["SBATCH_WAIT", "SBATCH_CLUSTERS"];
    let is_in_job = names.iter().any(|name| name == "SLURM_JOB_ID");
    let is_hidden = |name: &String| {
        let is_of_job = name.starts_with("SLURM_") && !REACH.contains(&name.as_str())
            || name.starts_with("SBATCH_MEM_BIND")
            || name.starts_with("SBATCH_CPU_BIND");
        is_in_job && is_of_job
            // `srun` refuses it beside what Slurm sets for an agent's job.
            || name.starts_with("SLURM_MEM_PER_")
            || name.starts_with("SQUEUE_")
            || name.starts_with("SCANCEL_")
            || CONTRADICTING.contains(&name.as_str())
    };
    names.into_iter().filter(is_hidden).collect()
}

/// The jobs in a list of `id|state|reason`; an array that waits is one line: `7_[2-5]`.
fn jobs_of(text: &str) -> BTreeMap<String, Job> {
    let job = |line: &str| {
        let mut parts = line.trim().split('|');
        let (id, state) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let reason = parts.next().unwrap_or_default().to_owned();
        let count = count_of(&id);
        let is_there =
            !matches!(state.as_str(), "COMPLETING" | "COMPLETED" | "CANCELLED" | "FAILED");
        is_there.then_some((id, Job { state, reason, count }))
    };
    text.lines().filter(|line| !line.trim().is_empty()).filter_map(job).collect()
}

/// How many tasks an id stands for: `7`, `7_3`, `7_[2-5,9]`, `7_[2-5%2]`.
fn count_of(id: &str) -> u64 {
    let Some((_, list)) = id.split_once('[') else { return 1 };
    let list = list.trim_end_matches(']').split('%').next().unwrap_or_default();
    let length = |range: &str| -> u64 {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.parse::<u64>().ok().zip(last.parse::<u64>().ok());
        bounds.map_or(1, |(first, last)| last.saturating_sub(first) + 1)
    };
    list.split(',').map(length).sum::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_has_the_options_and_an_agent_that_finds_its_runner() {
        let spec = SlurmSpec {
            partition: Some("gpu".to_owned()),
            time: Some("2:00:00".to_owned()),
            gres: Some("gpu:1".to_owned()),
            extra: vec!["--qos=low".to_owned()],
            max_jobs: 8,
            ..SlurmSpec::default()
        };
        let file = Path::new("/shared/it's/agents.json");
        let words = submission(&spec, "digits", Path::new("/bin/hpsearch"), file, 3);
        for wanted in
            ["--array=1-3", "--partition=gpu", "--time=2:00:00", "--gres=gpu:1", "--qos=low"]
        {
            assert!(words.contains(&wanted.to_owned()), "{wanted}: {words:?}");
        }
        assert_eq!(
            words.last().unwrap(),
            "--wrap=exec srun --ntasks=1 '/bin/hpsearch' agent '/shared/it'\\''s/agents.json'"
        );
        assert_ne!(job_name("digits", file), job_name("digits", Path::new("/other")));
    }

    #[test]
    fn commands_of_slurm_see_neither_filters_nor_the_job_of_the_runner() {
        let hidden = |names: &[&str]| {
            hidden_variables(names.iter().map(|name| (*name).to_owned()).collect()).join(" ")
        };
        let of_user = ["SQUEUE_STATES", "SCANCEL_STATE", "SBATCH_WAIT", "SBATCH_PARTITION", "PATH"];
        assert_eq!(hidden(&of_user), "SQUEUE_STATES SCANCEL_STATE SBATCH_WAIT");
        let of_job = ["SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SLURM_CONF", "SBATCH_ACCOUNT"];
        assert_eq!(hidden(&of_job), "SLURM_JOB_ID SLURM_MEM_PER_CPU");
        assert_eq!(hidden(&["SLURM_MEM_PER_CPU", "SLURM_CPU_BIND"]), "SLURM_MEM_PER_CPU");
        assert_eq!(hidden(&of_job[2..]), "");
    }

    #[test]
    fn arrays_that_wait_count_as_many_jobs() {
        let jobs =
            jobs_of("7_[2-5,9%2]|PENDING|Resources\n7_1|RUNNING|None\n8|COMPLETING|None\n\n");
        let counts: Vec<u64> = jobs.values().map(|job| job.count).collect();
        assert_eq!(counts.iter().sum::<u64>(), 6, "{jobs:?}");
        assert_eq!(jobs["7_[2-5,9%2]"].reason, "Resources");
    }
}

//! Limits on the number of processes and threads.

use std::path::Path;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::control_group::own_directory;

/// The limits on processes and threads and how they are raised, if an error may come from one: a
/// process or thread could not be started.
pub fn process_limits(error: &io::Error) -> Option<String> {
    let is_one = error.raw_os_error() == Some(Errno::AGAIN.raw_os_error());
    is_one.then(|| in_words(getrlimit(Resource::Nproc).current, of_group()))
}

/// The limit of a control group, and how many processes and threads are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupLimit {
    most: u64,
    present: u64,
}

/// The limit of this process's control groups that is closest.
fn of_group() -> Option<GroupLimit> {
    let first = || {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = groups.lines().find_map(|line| line.split_once(":pids:"))?.1.to_owned();
        Some(Path::new("/sys/fs/cgroup/pids").join(path.trim_start_matches('/')))
    };
    closest(&own_directory()?).or_else(|| closest(&first()?))
}

/// The closest limit of the group in a directory and those above it.
fn closest(directory: &Path) -> Option<GroupLimit> {
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse().ok();
    let limit = |group: &Path| {
        let (most, present) =
            (number(&group.join("pids.max"))?, number(&group.join("pids.current"))?);
        Some(GroupLimit { most, present })
    };
    let limits = directory.ancestors().filter_map(limit);
    limits.min_by_key(|limit| limit.most.saturating_sub(limit.present))
}

fn in_words(of_user: Option<u64>, of_group: Option<GroupLimit>) -> String {
    let of_user = of_user.map(|most| {
        format!("to {most} for this user (`ulimit -u`; for good in `/etc/security/limits.conf`)")
    });
    let of_group = of_group.map(|GroupLimit { most, present }| {
        format!(
            "to {most} in its control group, where {present} are (`pids.max`: `--pids-limit` of a \
             container, `TasksMax=` of systemd)"
        )
    });
    let limits: Vec<String> = of_user.into_iter().chain(of_group).collect();
    let limits = match limits.is_empty() {
        true => "by the machine (`kernel.threads-max`, `kernel.pid_max`)".to_owned(),
        false => limits.join(" and "),
    };
    format!(
        "processes and threads are limited {limits}: raise that limit, or run fewer trials at a \
         time"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_cannot_be_started_names_the_limits_and_another_error_does_not() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert_eq!(process_limits(&error(Errno::NOMEM)), None);
        assert!(process_limits(&error(Errno::AGAIN)).is_some());
        let group = GroupLimit { most: 100, present: 99 };
        let both = in_words(Some(12), Some(group));
        assert!(both.contains("to 12 for this user (`ulimit -u`"), "{both}");
        assert!(
            both.contains("and to 100 in its control group, where 99 are (`pids.max`"),
            "{both}"
        );
        assert!(in_words(None, None).contains("`kernel.threads-max`"));
    }

    #[test]
    fn of_several_groups_the_one_with_the_least_room_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(closest(&inner), None);
        for (group, most, present) in
            [("a/b", "max\n", "7\n"), ("a", "20\n", "19\n"), ("", "50\n", "30\n")]
        {
            fs::write(root.path().join(group).join("pids.max"), most).unwrap();
            fs::write(root.path().join(group).join("pids.current"), present).unwrap();
        }
        assert_eq!(closest(&inner), Some(GroupLimit { most: 20, present: 19 }));
    }
}

//! A Kubernetes Job whose pods are agents:
//! <https://kubernetes.io/docs/concepts/workloads/controllers/job/>.

use serde_json::{Map, Value as Json, json};

use super::rendezvous::FILE;

/// Where pods find the file with the runner's address.
const MOUNT: &str = "/run/hpsearch";

/// Longest name of a Job whose pods' names are host names.
const LONGEST_NAME: usize = 50;

/// What the user wants of the Job.
#[derive(Clone, Debug)]
pub struct JobOptions<'a> {
    /// The container image; it has `hpsearch` in its path.
    pub image: &'a str,
    /// How many agents.
    pub agents: u32,
    /// Resources of each, by their names in Kubernetes.
    pub resources: &'a [(String, String)],
    /// Devices instead of those of the study file.
    pub devices: &'a [String],
    /// Seconds that a pod has to save and end.
    pub grace: u64,
}

/// The manifests, as one list: a Secret with the content of the file by which agents find their
/// runner, and a Job of agents without a number of completions, which ends when the study ends.
pub fn manifests(study: &str, rendezvous: &str, options: &JobOptions<'_>) -> Json {
    let name = name_of(study);
    let labels = json!({"app.kubernetes.io/name": "hpsearch", "app.kubernetes.io/instance": name});
    let file = format!("{MOUNT}/{FILE}");
    let mut args = vec!["agent".to_owned(), file];
    if !options.devices.is_empty() {
        args.extend(["--devices".to_owned(), options.devices.join(",")]);
    }
    let resources: Map<String, Json> =
        options.resources.iter().map(|(name, amount)| (name.clone(), json!(amount))).collect();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels},
        "type": "Opaque",
        "stringData": {FILE: rendezvous},
    });
    let container = json!({
        "name": "agent",
        "image": options.image,
        "command": ["hpsearch"],
        "args": args,
        // Requests are the same where only limits are given.
        "resources": {"limits": resources},
        "volumeMounts": [{"name": "runner", "mountPath": MOUNT, "readOnly": true}],
    });
    let pod = json!({
        // The Job replaces pods that fail, until one has ended with the study.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": options.grace,
        "automountServiceAccountToken": false,
        "containers": [container],
        // A directory, not one file of it: kubelet replaces what changes.
        "volumes": [{"name": "runner", "secret": {"secretName": name, "defaultMode": 0o444}}],
    });
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "parallelism": options.agents,
            // Preempted pods are replaced as often as it takes.
            "backoffLimit": 1_000_000,
            "ttlSecondsAfterFinished": 3_600,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [secret, job]})
}

/// A name as RFC 1123 wants it: letters, digits and `-`.
fn name_of(study: &str) -> String {
    let fits =
        |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '-' };
    let name: String = format!("hpsearch-{study}").chars().map(fits).take(LONGEST_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hosts() {
        assert_eq!(name_of("Digits.v2_é"), "hpsearch-digits-v2");
        assert_eq!(name_of(&"x".repeat(200)).len(), LONGEST_NAME);
        assert_eq!(name_of("---"), "hpsearch");
    }

    #[test]
    fn pods_are_agents_that_find_the_runner_by_the_secret() {
        let options = JobOptions {
            image: "registry/hpsearch:1",
            agents: 8,
            resources: &[("nvidia.com/gpu".to_owned(), "1".to_owned())],
            devices: &["cuda:0".to_owned()],
            grace: 60,
        };
        let list = manifests("digits", "{\"token\":\"x\"}", &options);
        let (secret, job) = (&list["items"][0], &list["items"][1]);
        assert_eq!(secret["stringData"][FILE], "{\"token\":\"x\"}");
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], secret["metadata"]["name"]);
        let container = &pod["containers"][0];
        let words = ["agent", "/run/hpsearch/agents.json", "--devices", "cuda:0"];
        assert_eq!(container["args"], json!(words));
        assert_eq!(container["resources"]["limits"]["nvidia.com/gpu"], "1");
        assert_eq!(job["spec"]["parallelism"], 8);
        assert!(!job.to_string().contains("token\\\""), "the token is in the secret only");
    }
}

//! A study file of which one configuration is trained: what [trainer] fixes is not searched, and
//! there may be nothing to search at all.

use std::collections::BTreeSet;

use super::syntax::{Item, TomlTable, dotted};

/// Removes the parameters that [trainer] fixes from [space] and [[enqueue]], and an empty [space].
pub(super) fn fix_arguments(tree: &mut TomlTable) {
    let of_trainer = tree.get("trainer").and_then(|entry| entry.value.table());
    let leaves = of_trainer.map(TomlTable::leaves).unwrap_or_default();
    let fixed: BTreeSet<String> = leaves.into_iter().map(|leaf| leaf.name).collect();
    for entry in &mut tree.entries {
        match (entry.key.as_str(), &mut entry.value.item) {
            ("space", Item::Table(table)) => remove(table, "", &fixed),
            ("enqueue", Item::List(all)) => {
                for one in all {
                    if let Item::Table(table) = &mut one.item {
                        remove(table, "", &fixed);
                    }
                }
            }
            _ => {}
        }
    }
    let is_empty = |item: &Item| matches!(item, Item::Table(table) if table.entries.is_empty());
    tree.entries.retain(|entry| entry.key != "space" || !is_empty(&entry.value.item));
}

fn remove(table: &mut TomlTable, prefix: &str, names: &BTreeSet<String>) {
    table.entries.retain_mut(|entry| {
        let name = dotted(prefix, &entry.key);
        if names.contains(&name) {
            return false;
        }
        // A distribution is a table, too, but not one of fixed names.
        match &mut entry.value.item {
            Item::Table(below) if !below.entries.is_empty() => {
                remove(below, &name, names);
                !below.entries.is_empty()
            }
            _ => true,
        }
    });
}

/// Removes [pruner], which tells one training only when to evaluate; whether there was one.
pub(super) fn remove_pruner(tree: &mut TomlTable) -> bool {
    let before = tree.entries.len();
    tree.entries.retain(|entry| entry.key != "pruner");
    tree.entries.len() < before
}

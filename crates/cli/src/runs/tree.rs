//! Steps of a run over many pages, and which one caused which.

use std::collections::{BTreeMap, BTreeSet};

use driftq_api::v2::RunStep;

/// Adds the steps of the next page: a step that goes on there stays one.
pub(super) fn join(steps: &mut Vec<RunStep<'static>>, more: Vec<RunStep<'static>>) {
    let mut places: BTreeMap<_, _> =
        steps.iter().enumerate().map(|(place, step)| (step.step_id.clone(), place)).collect();
    for step in more {
        let Some(place) = places.get(&step.step_id) else {
            places.insert(step.step_id.clone(), steps.len());
            steps.push(step);
            continue;
        };
        let known = &mut steps[*place];
        known.parent_step_id = known.parent_step_id.take().or(step.parent_step_id);
        known.messages.extend(step.messages);
        known.effects.extend(step.effects);
    }
}

/// Names the children of every step, wherever they were listed.
pub(super) fn link(steps: &mut [RunStep<'static>]) {
    let places: BTreeMap<_, _> =
        steps.iter().enumerate().map(|(place, step)| (step.step_id.clone(), place)).collect();
    let pairs: Vec<_> =
        steps.iter().filter_map(|step| Some((step.parent_step_id.clone()?, step.step_id.clone()?))).collect();
    for step in steps.iter_mut() {
        step.children.clear();
    }
    for (parent, child) in pairs {
        if let Some(place) = places.get(&Some(parent)) {
            steps[*place].children.push(child);
        }
    }
}

/// Every step once and how deep it is, causes before what they caused. A step whose cause is not listed begins at the
/// margin, and so does the first of those that caused each other.
pub(super) fn order(steps: &[RunStep<'_>]) -> Vec<(usize, usize)> {
    let places: BTreeMap<_, _> = steps
        .iter()
        .enumerate()
        .filter_map(|(place, step)| Some((step.step_id.as_deref()?, place)))
        .collect();
    let is_root =
        |step: &RunStep<'_>| step.parent_step_id.as_deref().is_none_or(|parent| !places.contains_key(parent));
    let roots = (0..steps.len()).filter(|place| is_root(&steps[*place]));
    let mut order = Vec::with_capacity(steps.len());
    let mut seen = BTreeSet::new();
    for root in roots.chain(0..steps.len()) {
        let mut open = vec![(root, 0)];
        while let Some((place, depth)) = open.pop() {
            if !seen.insert(place) {
                continue;
            }
            order.push((place, depth));
            let children = steps[place].children.iter().rev();
            open.extend(children.filter_map(|child| Some((*places.get(&**child)?, depth + 1))));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, parent: &str) -> RunStep<'static> {
        let given = |text: &str| Some(text.to_owned().into()).filter(|_| !text.is_empty());
        RunStep {
            step_id: given(name),
            parent_step_id: given(parent),
            children: Vec::new(),
            messages: Vec::new(),
            effects: Vec::new(),
        }
    }

    fn told(mut steps: Vec<RunStep<'static>>) -> String {
        link(&mut steps);
        let line = |(place, depth): (usize, usize)| {
            format!("{}{} ", ">".repeat(depth), steps[place].step_id.as_deref().unwrap_or("-"))
        };
        order(&steps).into_iter().map(line).collect()
    }

    #[test]
    fn causes_come_before_what_they_caused() {
        let steps = vec![
            step("c", "b"),
            step("a", ""),
            step("b", "a"),
            step("d", "a"),
            step("", ""),
            step("x", "gone"),
        ];
        assert_eq!(told(steps), "a >b >>c >d - x ");
    }

    #[test]
    fn circles_end() {
        assert_eq!(told(vec![step("a", "b"), step("b", "a"), step("c", "c")]), "a >b c ");
    }

    #[test]
    fn pages_are_put_together() {
        let mut steps = vec![step("a", ""), step("b", "")];
        join(&mut steps, vec![step("b", "a"), step("c", "b"), step("c", "")]);
        assert_eq!(steps.len(), 3);
        assert_eq!(told(steps), "a >b >>c ");
    }
}

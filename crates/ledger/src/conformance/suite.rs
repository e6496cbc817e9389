//! The list of all cases, and the macro that makes tests of them.

/// Makes a `#[tokio::test]` of every case, in a module for each theme. `$harness` is an async function in scope,
/// without arguments, that returns a [`Harness`](crate::conformance::Harness).
#[macro_export]
macro_rules! conformance_suite {
    ($harness:ident) => {
        $crate::conformance_cases! { conformance_tests, $harness }
    };
}

/// Hands every case, by theme, to another macro of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($with:ident, $argument:ident) => {
        $crate::$with! {
            $argument;
            begin: [
                the_first_may_run_it,
                a_live_lease_keeps_everybody_else_off,
                others_are_told_when_to_come_again,
                the_same_call_gets_the_same_lease_again,
                the_same_call_gets_its_takeover_again,
                a_success_is_replayed,
                a_final_failure_is_replayed,
                a_failure_that_may_be_tried_again_is_told,
                whoever_reacquires_takes_a_failure_on,
                reacquiring_nothing_finds_nothing,
                another_request_is_refused_in_every_state,
                the_same_call_with_another_request_is_refused,
                a_request_hashed_by_an_older_recipe_is_recognised,
                the_recipe_of_a_hash_is_part_of_it,
                a_takeover_keeps_the_hash_that_is_there,
                an_older_release_recognises_what_is_begun_beside_it,
                a_name_that_two_callers_share_runs_nothing_twice,
            ];
            identity: [
                the_parts_do_not_run_into_each_other,
                letters_count_as_they_are,
                long_names_are_told_apart_to_the_last_byte,
                blanks_around_a_name_do_not_count,
                nobody_and_nothing_have_no_effects,
            ];
            finish: [
                a_response_comes_back_as_it_was,
                a_record_says_how_it_ended,
                a_second_identical_finish_is_not_stale,
                a_second_finish_that_differs_is_stale,
                a_failure_that_was_taken_on_is_over,
                a_lease_of_something_else_is_worth_nothing,
                an_empty_answer_is_an_answer,
                an_omitted_payload_leaves_its_size,
            ];
            renew: [
                a_renewed_lease_lasts_longer,
                a_renewal_never_shortens_a_lease,
                a_lapsed_lease_comes_back,
                unknown_turns_back_into_running,
                a_renewed_lease_lapses_like_any_other,
                whoever_was_overtaken_does_not_go_on,
                what_was_resolved_does_not_go_on,
            ];
            release: [
                what_was_given_up_may_run,
                a_later_attempt_that_was_given_up_may_be_tried_again,
                what_ended_stays,
                whoever_was_overtaken_gives_nothing_up,
            ];
            lapse: [
                after_a_crash_what_may_be_repeated_is_taken_over,
                after_a_crash_what_may_have_happened_is_held_and_resolved,
                what_is_held_is_unknown_for_everybody_who_looks,
                what_may_be_repeated_is_in_progress_until_somebody_takes_over,
                a_late_finish_counts_until_somebody_took_over,
                the_newest_lease_says_what_its_lapse_means,
                epochs_rise_with_every_takeover,
                the_same_call_after_a_lapse_gets_a_newer_lease,
                a_retry_worker_takes_over_as_well,
            ];
            waiting: [
                those_who_wait_are_told_how_it_ended,
                those_who_wait_are_told_that_it_may_be_tried,
                after_a_failure_one_waiter_takes_it_on,
                after_a_lapse_one_waiter_takes_over,
                those_who_wait_learn_that_it_is_unknown,
                waiting_ends_in_time,
                whoever_need_not_wait_does_not,
                a_wait_without_an_end_is_fine,
            ];
            crowd: [
                of_many_who_begin_one_runs_it,
                many_effects_do_not_get_in_each_others_way,
                after_a_lapse_one_of_many_takes_over,
                all_are_told_that_it_is_unknown,
                of_many_retry_workers_one_takes_it_on,
                after_its_time_one_of_many_begins_anew,
                the_same_finish_many_times_is_written_down_once,
                of_many_different_finishes_one_stays,
                a_renewal_and_a_takeover_do_not_both_win,
                a_late_finish_and_a_resolution_do_not_both_win,
            ];
            cap: [
                failures_use_the_attempts_up,
                a_person_grants_one_more_attempt,
                a_person_may_repeat_the_words_of_the_worker,
                a_lapse_of_the_last_attempt_is_unknown,
                the_larger_cap_counts_and_is_kept,
                an_asker_s_own_cap_stops_that_asker_alone,
                without_a_cap_there_is_always_another_attempt,
                a_cap_is_kept_by_whoever_does_not_say_it,
            ];
            staged: [
                a_takeover_comes_before_a_takeover,
                a_takeover_comes_before_an_ending,
                a_takeover_comes_before_a_renewal,
                a_takeover_comes_before_a_resolution,
                an_ending_comes_before_a_takeover,
                an_ending_comes_before_a_resolution,
                a_resolution_comes_before_an_ending,
                a_resolution_comes_before_a_takeover,
                a_begin_comes_before_a_begin,
                a_record_begun_anew_comes_before_another,
            ];
            audit: [
                what_just_begins_and_ends_leaves_no_note,
                a_resolution_is_remembered_after_the_next_attempt,
                every_turn_of_a_record_is_noted,
                notes_come_in_pages_and_for_one_effect,
            ];
            resolve: [
                unknown_is_settled_by_somebody_who_knows,
                what_did_not_happen_may_run_again,
                a_lapsed_lease_is_resolved,
                a_failure_can_turn_out_to_be_none,
                what_runs_is_not_resolved,
                what_ended_is_left_alone,
                nothing_is_resolved_where_nothing_is,
                a_resolution_of_an_older_lease_is_stale,
            ];
            clocks: [
                a_stale_worker_loses_whatever_its_clock_says,
                the_newest_lease_counts_whatever_its_holders_clock_says,
                no_clock_blocks_a_retry,
                times_are_told_as_they_are_kept,
                a_lease_of_odd_length_lapses_and_is_taken_over,
                times_of_a_record_are_in_order,
            ];
            expiry: [
                an_outcome_is_not_replayed_after_its_time,
                a_failure_past_its_time_is_no_dead_end,
                a_record_begun_anew_owes_nothing_to_the_old_one,
                the_same_call_after_its_time_begins_anew,
                what_somebody_runs_is_never_over,
                what_may_have_happened_is_never_over,
                what_was_abandoned_and_may_be_repeated_is_forgotten,
                a_resolution_is_forgotten_after_its_time,
            ];
            listing: [
                a_list_by_status_has_what_stands_so,
                a_list_and_a_look_agree,
                pages_have_everything_once,
                a_list_has_those_of_exactly_this_name,
                a_retry_worker_finds_its_work,
                counts_agree_with_what_is_there,
            ];
            sweeping: [
                sweeping_leaves_what_counts,
                a_swept_record_begun_anew_refuses_the_old_lease,
                a_dry_run_changes_nothing,
                small_rounds_sweep_everything,
                what_a_sweep_holds_is_unknown_like_any_other,
            ];
            decisions: [
                begin_decides_as_the_table_says,
                finish_decides_as_the_table_says,
                renew_decides_as_the_table_says,
                resolve_decides_as_the_table_says,
            ];
            bounds: [
                a_begin_that_cannot_be_meant_is_refused,
                terms_at_their_bounds_are_kept,
                an_ending_that_cannot_be_kept_is_refused,
                a_renewal_that_cannot_be_meant_is_refused,
                a_resolution_says_who_and_why,
                pages_and_rounds_have_bounds,
                a_foreign_hash_is_kept_as_it_is,
            ];
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($harness:ident; $($theme:ident: [$($case:ident),+ $(,)?];)+) => {
        $(mod $theme {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let harness = super::$harness().await;
                $crate::conformance::$theme::$case(&harness).await;
            })+
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_names {
    ($_argument:ident; $($theme:ident: [$($case:ident),+ $(,)?];)+) => {
        &[$((stringify!($theme), &[$(stringify!($case)),+])),+]
    };
}

/// The names of all cases, by theme.
pub const CASES: &[(&str, &[&str])] = crate::conformance_cases! { conformance_names, names };

#[cfg(test)]
mod tests {
    use super::CASES;

    #[test]
    fn every_case_that_is_written_is_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
        let mut themes = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let theme = path.file_stem().unwrap().to_str().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let cases = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            let mut written: Vec<&str> = cases.filter_map(|line| line.split('(').next()).collect();
            let listed = CASES.iter().find(|(name, _)| *name == theme);
            let mut listed = listed.map_or_else(Vec::new, |(_, cases)| cases.to_vec());
            written.sort_unstable();
            listed.sort_unstable();
            assert_eq!(written, listed, "{theme}");
            themes += usize::from(!listed.is_empty());
        }
        assert_eq!(themes, CASES.len());
    }
}

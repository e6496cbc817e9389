//! The long forms of what `test` runs in short: `cargo xtask soak`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    args::Args,
    command::{self, Scene},
    fuzz, mutants,
    outside::NATS,
    postgres::Server,
    step::Steps,
};

/// Seeds per call when the clock and not a number ends the simulation.
const SEEDS_PER_ROUND: u64 = 200;

/// Which part of the seeds is also run with several nodes on one log, with several shards, and with both.
const SCENE_PART: u64 = 5;

/// Kills of an export; sinks and deliveries are killed two hundred times, too.
const CONNECTOR_KILLS: u64 = 200;

/// How long the servers of a cluster are killed, put to sleep, drained and cut off.
const CLUSTER_SECONDS: u64 = 120;
/// The same while what holds their log is broken as well.
const ENGINE_SECONDS: u64 = 90;
/// Shards of such a cluster, where it has several.
const CLUSTER_SHARDS: u64 = 3;

pub(crate) struct Settings {
    seeds: u64,
    cycles: u64,
    minutes: Option<u64>,
}

impl Settings {
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let settings = Self {
            seeds: args.value("--seeds")?.unwrap_or(2_000),
            cycles: args.value("--cycles")?.unwrap_or(500),
            minutes: args.value("--minutes")?,
        };
        args.finish()?;
        Ok(settings)
    }
}

pub(crate) fn run(root: &Path, settings: &Settings) -> Result<()> {
    let mut steps = Steps::new();
    let simulator = command::target_folder(root)?.join("release/driftq-sim");
    if steps
        .run("build the simulator", || command::expect_success(&mut command::build_simulator_release(root)))
    {
        steps.run("simulation", || simulate(&simulator, settings));
        steps.run("simulation, several nodes and shards", || {
            let seeds = settings.seeds.div_ceil(SCENE_PART);
            Scene::OTHERS.into_iter().try_for_each(|scene| {
                let mut run = command::simulate_scene(&simulator, command::FIRST_SEED, seeds, scene);
                command::expect_success(&mut run)
            })
        });
    } else {
        steps.skip("simulation", "the simulator did not build");
    }
    steps.run("mutants", || mutants::run(root, &mutants::Settings::full(settings.seeds)));
    steps.run("parsers of foreign bytes", || fuzz::run(root, &fuzz::Settings::short()));
    steps.run("kill -9 loop", || {
        command::expect_success(&mut command::kill_loop_release(root, settings.cycles))
    });
    // After the loop above, which has built the binary.
    steps.run("kill -9 loop, effects", || {
        let broker = command::target_folder(root)?.join("release/driftq");
        command::expect_success(&mut command::kill_effects(root, &broker, settings.cycles))
    });
    steps.run("kill -9 loops, several shards", || {
        let broker = command::target_folder(root)?.join("release/driftq");
        command::expect_success(&mut command::kill_shards(root, &broker, settings.cycles))?;
        command::expect_success(&mut command::kill_effects_of_shards(root, &broker, settings.cycles))
    });
    steps.run("kill -9 loops, connectors", || {
        command::expect_success(&mut command::kill_connectors(root, CONNECTOR_KILLS))
    });
    // With the binary that the tests of the connectors were built with: it has everything.
    steps.run("cluster: kills, sleepers, hand-overs, cuts", || {
        let target = command::target_folder(root)?.join("debug");
        let server = Server::start_durable(&target.join("driftq-testbed"))?;
        let chaos = command::cluster_chaos(root, &target.join("driftq"), CLUSTER_SECONDS);
        command::expect_success(&mut server.known_to(chaos))
    });
    steps.run("cluster: PostgreSQL breaks, several shards", || {
        let broker = command::target_folder(root)?.join("debug/driftq");
        let mut chaos = command::engine_chaos(root, &broker, "postgres", CLUSTER_SHARDS, ENGINE_SECONDS);
        command::expect_success(&mut chaos)
    });
    nats_breaks(root, &mut steps)?;
    steps.run("kill -9 loop, ledger", || {
        command::expect_success(&mut command::kill_ledger_release(root, settings.cycles))
    });
    steps.run("deployment and way back, ledger", || {
        command::expect_success(&mut command::deploy_ledger_release(root, settings.cycles))
    });
    steps.run("ledger, statements not prepared", || {
        command::expect_success(&mut command::ledger_direct_release(root))
    });
    steps.finish()
}

fn nats_breaks(root: &Path, steps: &mut Steps) -> Result<()> {
    let debug = command::target_folder(root)?.join("debug");
    // Without it a line says that it is left out.
    let Some(program) = NATS.provide(&debug, steps) else { return Ok(()) };
    steps.run("cluster: NATS breaks", || {
        let mut chaos = command::engine_chaos(root, &debug.join("driftq"), "nats", 1, ENGINE_SECONDS);
        command::expect_success(chaos.env(NATS.variable, program))
    });
    Ok(())
}

fn simulate(simulator: &Path, settings: &Settings) -> Result<()> {
    let Some(minutes) = settings.minutes else {
        return command::expect_success(&mut command::simulate(
            simulator,
            command::FIRST_SEED,
            settings.seeds,
        ));
    };
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    // Seeds that the fixed runs never reach, so that a soak by time looks somewhere new.
    let first = command::FIRST_SEED + settings.seeds;
    let mut from = first;
    while Instant::now() < until {
        command::expect_success(&mut command::simulate(simulator, from, SEEDS_PER_ROUND))?;
        from += SEEDS_PER_ROUND;
    }
    println!("seeds {first} to {} are clean", from - 1);
    Ok(())
}

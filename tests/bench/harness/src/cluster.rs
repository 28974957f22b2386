//! A private Redis Cluster for one run: masters, each with an equal range of the slots.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::server::{Host, Server, Setup, free_port};
use crate::{Failure, fail};

const SLOTS: usize = 16_384;

pub struct Cluster {
    pub masters: Vec<Server>,
}

impl Cluster {
    pub fn start(setup: &Setup, masters: usize) -> Result<Self, Failure> {
        let mut cluster = Self { masters: Vec::new() };
        // Where the masters speak to each other.
        let mut buses = Vec::new();
        for _ in 0..masters {
            let bus = free_port()?.to_string();
            let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            cluster.masters.push(Server::start_with(setup, &settings)?);
            buses.push(bus);
        }
        cluster.join(&buses)?;
        Ok(cluster)
    }

    fn join(&mut self, buses: &[String]) -> Result<(), Failure> {
        let count = self.masters.len();
        let first = self.masters.first().map_or(0, Server::port);
        for (number, master) in self.masters.iter_mut().enumerate() {
            let begin = |number| SLOTS * number / count;
            let (from, to) = (begin(number), begin(number + 1) - 1);
            let mut cluster = redis::cmd("CLUSTER");
            cluster.clone().arg("SET-CONFIG-EPOCH").arg(number + 1).exec(master.redis())?;
            cluster.clone().arg("ADDSLOTSRANGE").arg(from).arg(to).exec(master.redis())?;
            if number > 0 {
                let meet = cluster.arg("MEET").arg("127.0.0.1").arg(first);
                meet.arg(buses.first()).exec(master.redis())?;
            }
        }
        let give_up = Instant::now() + Duration::from_secs(30);
        while !self.is_whole()? {
            if Instant::now() > give_up {
                return Err(fail("the masters did not find each other within 30 s"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether each master knows all others and who has which slots.
    fn is_whole(&mut self) -> Result<bool, Failure> {
        let wanted = [
            "cluster_state:ok".to_owned(),
            format!("cluster_slots_ok:{SLOTS}"),
            format!("cluster_known_nodes:{}", self.masters.len()),
        ];
        for master in &mut self.masters {
            let info: String = redis::cmd("CLUSTER").arg("INFO").query(master.redis())?;
            if !wanted.iter().all(|line| info.lines().any(|one| one == line)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Seconds of processor that all masters have used.
    pub fn cpu(&self) -> Result<f64, Failure> {
        self.masters.iter().map(|master| Ok(master.used()?.cpu)).sum()
    }
}

impl Host for Cluster {
    fn url(&self) -> String {
        let hosts = self.masters.iter().map(|master| format!("127.0.0.1:{}", master.port()));
        format!("redis-cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    fn dir(&self) -> &Path {
        self.masters.first().map_or(Path::new("."), Server::dir)
    }
}

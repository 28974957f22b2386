//! Each test starts servers of its own; those of the matrix run on every server program that the machine has.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, test_kill_process};

use super::*;

/// Names a test process that is to start a server and to be killed with it.
const OWNER: &str = "HWORKER_TEST_EMBEDDED_OWNER";

/// The server programs to test with: those of `HWORKER_TEST_SERVERS` (paths separated as in `PATH`), or those found on
/// the `PATH`.
fn programs() -> Vec<PathBuf> {
    let found = match env::var_os("HWORKER_TEST_SERVERS") {
        Some(listed) => env::split_paths(&listed).collect(),
        None => ["valkey-server", "redis-server"]
            .iter()
            .filter_map(|name| program::find(Some(Path::new(name))).ok())
            .collect::<Vec<_>>(),
    };
    for name in ["valkey-server", "redis-server"] {
        if !found.iter().any(|path| path.ends_with(name)) {
            println!("skipped with {name}: not on this machine");
        }
    }
    assert!(!found.is_empty(), "these tests need valkey-server or redis-server: run script/setup");
    found
}

fn run(stream: impl Read + Write, command: &str) -> String {
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_line(&mut reply).unwrap();
    if reply.starts_with('$') && !reply.starts_with("$-") {
        reply.clear();
        stream.read_line(&mut reply).unwrap();
    }
    reply.trim_end().to_owned()
}

fn ask(server: &Server, command: &str) -> String {
    run(UnixStream::connect(server.socket()).unwrap(), command)
}

fn alive(pid: u32) -> bool {
    let there = Pid::from_raw(pid as i32).is_some_and(|pid| test_kill_process(pid).is_ok());
    // A zombie that nobody has waited for is dead to us; where there is no /proc, init waits for all.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    there && !stat.contains(") Z ")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn serves_on_a_socket_alone_and_leaves_nothing_behind() {
    for program in programs() {
        let server = Server::builder().program(&program).start().unwrap();
        let (pid, home) = (server.pid().unwrap(), server.socket().parent().unwrap().to_owned());
        assert_eq!(server.program(), program);
        assert_eq!(server.url(), format!("redis+unix://{}", server.socket().display()));
        assert!(server.socket().as_os_str().len() < 104);
        assert_eq!(ask(&server, "SET a 1"), "+OK");
        assert_eq!(ask(&server, "GET a"), "1");
        assert_eq!(run_config(&server, "port"), "0");
        assert_eq!(run_config(&server, "save"), "");
        assert_eq!(run_config(&server, "appendonly"), "no");
        assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o077, 0);
        drop(server);
        assert!(!alive(pid) && !home.exists());
    }
}

/// The value of one setting of the server.
fn run_config(server: &Server, name: &str) -> String {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.write_all(format!("CONFIG GET {name}\r\n").as_bytes()).unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().take(5).map(Result::unwrap).collect();
    lines[4].clone()
}

#[test]
fn keeps_its_data_over_a_crash_where_asked_to() {
    for program in programs() {
        let builder = Server::builder().program(program).append_only(true);
        let mut server = builder.arg("--appendfsync", "always").start().unwrap();
        let (url, first) = (server.url(), server.pid().unwrap());
        assert_eq!(ask(&server, "SET kept yes"), "+OK");
        server.kill();
        assert!(server.pid().is_none() && !alive(first));
        assert!(UnixStream::connect(server.socket()).is_err());
        server.restart().unwrap();
        assert_eq!((server.url(), ask(&server, "GET kept")), (url, "yes".into()));
        assert_ne!(server.pid(), Some(first));
    }
}

#[test]
fn keeps_nothing_by_default() {
    let mut server = Server::start().unwrap();
    assert_eq!(ask(&server, "SET a 1"), "+OK");
    server.restart().unwrap();
    assert_eq!(ask(&server, "GET a"), "$-1");
}

#[test]
fn keeps_the_data_directory_that_it_was_given() {
    let parent = TempDir::new().unwrap();
    let data = parent.path().join("with space").join("data");
    for expected in ["$-1", "1"] {
        let mut server = Server::builder().data_dir(&data).append_only(true).start().unwrap();
        assert_eq!(ask(&server, "GET a"), expected);
        assert_eq!(ask(&server, "SET a 1"), "+OK");
        server.stop().unwrap();
    }
    assert!(data.is_dir());
    assert_eq!(
        fs::metadata(&data).unwrap().permissions().mode() & 0o077,
        0,
        "made for nobody else"
    );
}

#[test]
fn a_data_directory_is_used_by_one_server_at_a_time() {
    let data = TempDir::new().unwrap();
    let mut first = Server::builder().data_dir(data.path()).append_only(true).start().unwrap();
    assert_eq!(ask(&first, "SET a 1"), "+OK");
    // The same server may start again, and what it leaves is for whoever waits.
    first.restart().unwrap();
    thread::scope(|both| {
        let second =
            both.spawn(|| Server::builder().data_dir(data.path()).append_only(true).start());
        thread::sleep(Duration::from_millis(200));
        assert!(!second.is_finished(), "it waits");
        drop(first);
        assert_eq!(ask(&second.join().unwrap().unwrap(), "GET a"), "1");
    });
    let _third = Server::builder().data_dir(data.path()).start().unwrap();
    let refused = Server::builder().data_dir(data.path()).start().unwrap_err().to_string();
    assert!(refused.contains("another server uses this data directory"), "{refused}");
}

#[test]
fn a_server_holds_its_data_directory_itself() {
    // As after the death of its program, which it outlives for a moment.
    let data = TempDir::new().unwrap();
    let mut server = Server::builder().data_dir(data.path()).start().unwrap();
    let path = data.path().join(process::LOCK);
    let free = || fs::File::open(&path).unwrap().try_lock().is_ok();
    assert!(!free());
    server.kill();
    assert!(free());
    // One that has stopped is in nobody's way.
    let mut other = Server::builder().data_dir(data.path()).start().unwrap();
    other.stop().unwrap();
    server.restart().unwrap();
}

#[test]
fn passwords_are_not_shown() {
    let builder = Server::builder().arg("--requirepass", "sesame");
    assert!(!format!("{builder:?}").contains("sesame"), "{builder:?}");
    let server = builder.start().unwrap();
    assert!(!format!("{server:?}").contains("sesame"), "{server:?}");
}

#[test]
fn one_that_is_paused_can_be_stopped_and_started_again() {
    let mut server = Server::start().unwrap();
    server.pause();
    server.restart().unwrap();
    assert_eq!(ask(&server, "SET a 1"), "+OK");
    server.pause();
    server.stop().unwrap();
}

#[test]
fn listens_on_a_port_where_asked_to_and_keeps_it() {
    for program in programs() {
        let mut server = Server::builder().program(program).tcp(true).start().unwrap();
        let url = server.url();
        let address = url.strip_prefix("redis://").unwrap();
        assert_eq!(run(TcpStream::connect(address).unwrap(), "PING"), "+PONG");
        server.kill();
        server.restart().unwrap();
        assert_eq!(server.url(), url);
        assert_eq!(run(TcpStream::connect(address).unwrap(), "PING"), "+PONG");
    }
}

#[test]
fn takes_options_of_the_server() {
    let server = Server::builder().arg("--maxmemory", "2mb").arg("--requirepass", "x y").start();
    let server = server.unwrap();
    assert!(ask(&server, "GET a").starts_with("-NOAUTH"));
    assert_eq!(run(UnixStream::connect(server.socket()).unwrap(), "AUTH \"x y\""), "+OK");
}

#[test]
fn many_run_side_by_side() {
    let start = |_| thread::spawn(|| Server::builder().tcp(true).start().unwrap());
    let starting: Vec<_> = (0..12).map(start).collect();
    let servers: Vec<Server> = starting.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(ask(server, &format!("SET own {number}")), "+OK");
    }
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(ask(server, "GET own"), number.to_string());
    }
}

#[test]
fn can_be_paused_and_is_stopped_all_the_same() {
    let server = Server::start().unwrap();
    let pid = server.pid().unwrap();
    server.pause();
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(stream.read(&mut [0; 8]).is_err());
    server.resume();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 7);
    server.pause();
    let began = Instant::now();
    drop(server);
    assert!(began.elapsed() < DROP_DEADLINE && !alive(pid));
}

#[test]
fn a_server_that_does_not_start_says_why() {
    for program in programs() {
        let error = Server::builder().program(program).arg("--no-such-option", "1").start();
        let message = error.unwrap_err().to_string();
        assert!(message.contains("stopped at once"), "{message}");
        assert!(message.contains("no-such-option"), "{message}");
    }
}

#[test]
fn a_missing_program_is_an_error_that_names_the_packages() {
    let none = program::find_in(None, &[PathBuf::from("/nonexistent")]).unwrap_err().to_string();
    for word in ["neither valkey-server nor redis-server", "apt", "dnf", "apk", "brew"] {
        assert!(none.contains(word), "{none}");
    }
    let asked = Server::builder().program("/nonexistent/redis-server").start().unwrap_err();
    assert!(asked.to_string().contains("/nonexistent/redis-server is not an executable file"));
    let asked = Server::builder().program("no-such-server").start().unwrap_err();
    assert!(asked.to_string().contains("no-such-server is not on the PATH"));
}

#[test]
fn programs_are_looked_for_in_order() {
    let dir = TempDir::new().unwrap();
    let dirs = [PathBuf::from("/nonexistent"), dir.path().to_owned()];
    let (redis, valkey) = (dir.path().join("redis-server"), dir.path().join("valkey-server"));
    fs::write(&valkey, "").unwrap();
    for program in [&redis, &valkey] {
        fs::write(program, "").unwrap();
        assert!(program::find_in(None, &dirs).is_err() || program == &valkey);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(&program::find_in(None, &dirs).unwrap(), program);
    }
    assert_eq!(program::find_in(Some(Path::new("redis-server")), &dirs).unwrap(), redis);
}

/// Does nothing but in the process that the next test starts.
#[test]
fn owner_to_be_killed() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let server = Server::start().unwrap();
    println!("\nserver {} {}", server.pid().unwrap(), server.socket().display());
    loop {
        thread::park();
    }
}

#[test]
fn a_killed_owner_takes_its_server_along() {
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "embedded::tests::owner_to_be_killed", "--nocapture"])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("server ")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let (pid, socket) = (words[1].parse().unwrap(), PathBuf::from(words[2]));
    assert!(alive(pid) && socket.exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the server is gone", || !alive(pid));
    eventually("its directory is gone", || !socket.parent().unwrap().exists());
}

//! The `sarouter` command: parse, dispatch, print the error chain once, exit.

fn main() -> std::process::ExitCode {
    sarouter::cli::main()
}

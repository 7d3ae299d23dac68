//! Makes code of the protocol, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/link.proto");
    let files = protox::compile(["link.proto"], ["proto"])?;
    // Tokens and keys are in these: nothing may print them by accident.
    let secret = ["tidegate.link.v1.EnrollRequest", "tidegate.link.v1.Blob", "tidegate.link.v1.Item"];
    tonic_prost_build::configure()
        .skip_debug(secret)
        .bytes(".tidegate.link.v1.Item.content")
        .compile_fds(files)?;
    Ok(())
}

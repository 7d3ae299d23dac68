//! gRPC as its users have it: a client and a server of tonic's, and calls of every kind between them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;

use http::uri::PathAndQuery;
use tidegate_plan::Rules;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::metadata::MetadataValue;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::client::run;
use crate::gate::{Gate, grpc_rule};

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(int64, tag = "1")]
    value: i64,
    /// To make it long.
    #[prost(bytes = "vec", tag = "2")]
    padding: Vec<u8>,
}

fn number(value: i64) -> Number {
    Number { value, padding: Vec::new() }
}

type Numbers = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

/// Twice as much, and what the client said of itself; less than nothing is refused with a word for it.
async fn double(asked: Request<Number>) -> Result<Response<Number>, Status> {
    let said = asked.metadata().get("x-said").cloned();
    let Number { value, padding } = asked.into_inner();
    if value < 0 {
        let mut status = Status::out_of_range(format!("{value} is less than \u{2014} nothing"));
        status.metadata_mut().insert_bin("x-detail-bin", MetadataValue::from_bytes(&[0, 255, 10, 13]));
        return Err(status);
    }
    let mut answer = Response::new(Number { value: 2 * value, padding });
    said.and_then(|said| answer.metadata_mut().insert("x-said", said));
    Ok(answer)
}

/// All from one to the number, and then that there are no more, with an error if it is odd.
async fn count(asked: Request<Number>) -> Result<Response<Numbers>, Status> {
    let last = asked.into_inner().value;
    let all = tokio_stream::iter(1..=last).map(|value| Ok(number(value)));
    let end = (last % 2 == 1).then(|| Err(Status::data_loss("odd")));
    Ok(Response::new(Box::pin(all.chain(tokio_stream::iter(end)))))
}

async fn sum(asked: Request<Streaming<Number>>) -> Result<Response<Number>, Status> {
    let (mut all, mut sum) = (asked.into_inner(), 0);
    while let Some(Number { value, .. }) = all.message().await? {
        sum += value;
    }
    Ok(Response::new(number(sum)))
}

/// Each as it comes.
async fn squares(asked: Request<Streaming<Number>>) -> Result<Response<Numbers>, Status> {
    let all = asked.into_inner().map(|asked| asked.map(|asked| number(asked.value * asked.value)));
    Ok(Response::new(Box::pin(all)))
}

const DOUBLE: &str = "/numbers.Numbers/Double";
const COUNT: &str = "/numbers.Numbers/Count";
const SUM: &str = "/numbers.Numbers/Sum";
const SQUARES: &str = "/numbers.Numbers/Squares";

async fn answer(request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<Number, Number>::default());
    Ok(match request.uri().path() {
        DOUBLE => grpc.unary(service_fn(double), request).await,
        COUNT => grpc.server_streaming(service_fn(count), request).await,
        SUM => grpc.client_streaming(service_fn(sum), request).await,
        SQUARES => grpc.streaming(service_fn(squares), request).await,
        _ => Status::unimplemented("no such method").into_http(),
    })
}

/// A server, and Tidegate in front of it.
fn serve() -> Gate {
    let (sender, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        sender.send(incoming.local_addr().unwrap().port()).unwrap();
        runtime.block_on(Server::builder().serve_with_incoming(service_fn(answer), incoming)).unwrap();
    });
    let port = port.recv().unwrap();
    let mut gate = Gate::new();
    let id = gate.backend("numbers", &[port]);
    gate.route_for("numbers", &["numbers.test"], &["http"], Rules::Grpc(vec![grpc_rule(&id)]));
    gate.serving()
}

struct Client(tonic::client::Grpc<Channel>);

impl Client {
    async fn to(gate: &Gate) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", gate.address())).unwrap();
        let endpoint = endpoint.origin("http://numbers.test".parse().unwrap());
        Self(tonic::client::Grpc::new(endpoint.connect().await.unwrap()))
    }

    async fn double(&mut self, asked: Request<Number>) -> Result<Response<Number>, Status> {
        self.0.ready().await.unwrap();
        self.0.unary(asked, PathAndQuery::from_static(DOUBLE), codec()).await
    }
}

fn codec() -> ProstCodec<Number, Number> {
    ProstCodec::default()
}

#[test]
fn a_call_and_its_answer() {
    let gate = serve();
    run(async {
        let mut client = Client::to(&gate).await;
        let mut asked = Request::new(number(21));
        asked.metadata_mut().insert("x-said", MetadataValue::from_static("hello"));
        let answer = client.double(asked).await.unwrap();
        assert_eq!(answer.metadata().get("x-said").unwrap(), "hello");
        assert_eq!(answer.into_inner(), number(42));

        let refused = client.double(Request::new(number(-1))).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::OutOfRange, "-1 is less than \u{2014} nothing")
        );
        let detail = refused.metadata().get_bin("x-detail-bin").unwrap().to_bytes().unwrap();
        assert_eq!(&detail[..], [0, 255, 10, 13]);

        client.0.ready().await.unwrap();
        let path = PathAndQuery::from_static("/numbers.Numbers/Halve");
        let unknown = client.0.unary(Request::new(number(1)), path, codec()).await.map(Response::into_inner);
        assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    });
    gate.line(&[
        "route=\"GRPCRoute default/numbers\"",
        "path=\"/numbers.Numbers/Double\"",
        "ending=\"done\"",
    ]);
}

/// Larger than any window and any buffer.
#[test]
fn a_long_message_both_ways() {
    let gate = serve();
    run(async {
        let mut client = Client::to(&gate).await;
        let padding: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let asked = Request::new(Number { value: 1, padding: padding.clone() });
        assert!(client.double(asked).await.unwrap().into_inner() == Number { value: 2, padding });
    });
}

#[test]
fn a_stream_of_answers() {
    let gate = serve();
    run(async {
        let mut client = Client::to(&gate).await;
        for (last, end) in [(0, Code::Ok), (1000, Code::Ok), (999, Code::DataLoss)] {
            client.0.ready().await.unwrap();
            let path = PathAndQuery::from_static(COUNT);
            let answer = client.0.server_streaming(Request::new(number(last)), path, codec()).await.unwrap();
            let mut all = answer.into_inner();
            for value in 1..=last {
                assert_eq!(all.message().await.unwrap(), Some(number(value)));
            }
            assert_eq!(all.message().await.err().map_or(Code::Ok, |status| status.code()), end, "{last}");
        }
    });
}

#[test]
fn a_stream_of_questions() {
    let gate = serve();
    run(async {
        let mut client = Client::to(&gate).await;
        client.0.ready().await.unwrap();
        let asked = Request::new(tokio_stream::iter((1..=1000).map(number)));
        let path = PathAndQuery::from_static(SUM);
        let answer: Response<Number> = client.0.client_streaming(asked, path, codec()).await.unwrap();
        assert_eq!(answer.into_inner(), number(500_500));
    });
}

/// Each question after the answer to the one before: nobody on the way waits for more of them.
#[test]
fn a_conversation() {
    let gate = serve();
    run(async {
        let mut client = Client::to(&gate).await;
        client.0.ready().await.unwrap();
        let (sender, questions) = tokio::sync::mpsc::channel(1);
        let asked = Request::new(ReceiverStream::new(questions));
        let path = PathAndQuery::from_static(SQUARES);
        let answer = client.0.streaming(asked, path, codec()).await.unwrap();
        let mut answers: Streaming<Number> = answer.into_inner();
        for value in 0..100 {
            sender.send(number(value)).await.unwrap();
            assert_eq!(answers.message().await.unwrap(), Some(number(value * value)));
        }
        drop(sender);
        assert_eq!(answers.message().await.unwrap(), None);
    });
    gate.line(&["path=\"/numbers.Numbers/Squares\"", "ending=\"done\""]);
}

/// What Tidegate itself has to say is a status of gRPC's.
#[test]
fn what_goes_nowhere_has_a_status() {
    let mut gate = serve();
    let nobody = gate.backend("nobody", &[]);
    gate.route_for("nobody", &["nobody.test"], &["http"], Rules::Grpc(vec![grpc_rule(&nobody)]));
    gate.apply();
    run(async {
        for (name, code) in [("elsewhere.test", Code::Unimplemented), ("nobody.test", Code::Unavailable)] {
            let endpoint = Endpoint::from_shared(format!("http://{}", gate.address())).unwrap();
            let endpoint = endpoint.origin(format!("http://{name}").parse().unwrap());
            let mut client = Client(tonic::client::Grpc::new(endpoint.connect().await.unwrap()));
            let refused = client.double(Request::new(number(1))).await.unwrap_err();
            assert_eq!(refused.code(), code, "{name}: {refused:?}");
        }
    });
}

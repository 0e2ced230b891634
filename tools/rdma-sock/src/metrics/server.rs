// SPDX-License-Identifier: GPL-2.0

//! Metrics by HTTP.
//!
//! Each request reads the machine anew. Slow, silent and surplus clients are dropped.

use anyhow::{
    bail,
    Context,
    Result, //
};
use http_body_util::Full;
use hyper::{
    body::Bytes,
    header::{
        ALLOW,
        CONTENT_TYPE, //
    },
    server::conn::http1,
    service::service_fn,
    Method,
    Request,
    Response,
    StatusCode, //
};
use hyper_util::rt::{
    TokioIo,
    TokioTimer, //
};
use std::{
    convert::Infallible,
    net::{
        Ipv4Addr,
        SocketAddr, //
    },
    rc::Rc,
    str::FromStr,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{
        TcpListener,
        TcpStream, //
    },
    runtime,
    sync::Semaphore,
    time, //
};

use crate::output;

/// The media type of the text format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const INDEX: &str = "rdma-sock: the metrics are at /metrics\n";

/// Most clients at a time.
const CLIENTS: usize = 16;
/// Time for the head of a request, and for a client with all of its requests.
const HEAD_TIME: Duration = Duration::from_secs(5);
const CLIENT_TIME: Duration = Duration::from_secs(60);
/// Time until the next try if no client can be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// An address to listen on; that of this host only if there is just a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Address(SocketAddr);

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        match text.parse() {
            Ok(address) => Ok(Self(address)),
            Err(_) => bail!("no address with a port, like 127.0.0.1:9815, [::]:9815 or 9815"),
        }
    }
}

/// Makes the text of the metrics.
pub(super) type Source = dyn Fn() -> Result<String>;

/// Answers requests until the process ends.
pub(super) fn run(address: Address, source: Rc<Source>) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = TcpListener::bind(address.0)
            .await
            .with_context(|| format!("cannot listen on {}", address.0))?;
        let bound = listener.local_addr().context("cannot listen")?;
        output::note(&format!("metrics at http://{bound}/metrics"));
        accept(listener, source).await
    })
}

/// Accepts clients.
async fn accept(listener: TcpListener, source: Rc<Source>) -> Result<()> {
    let places = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let place = places.clone().acquire_owned().await?;
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = source.clone();
                tokio::task::spawn_local(async move {
                    // The error of one client is no matter for the others.
                    let _ = time::timeout(CLIENT_TIME, serve(stream, source)).await;
                    drop(place);
                });
            }
            // Such as too many open files, or a client that has gone.
            Err(_) => time::sleep(RETRY).await,
        }
    }
}

/// Serves one client.
async fn serve(stream: TcpStream, source: Rc<Source>) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = answer(request.method(), request.uri().path(), &*source);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// The answer to a request.
fn answer(method: &Method, path: &str, source: &Source) -> Response<Full<Bytes>> {
    let text = |status: StatusCode, kind: &'static str, body: String| {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let kind = hyper::header::HeaderValue::from_static(kind);
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        let body = "only GET and HEAD\n".into();
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, body);
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match path {
        "/metrics" => match source() {
            Ok(body) => text(StatusCode::OK, OPENMETRICS, body),
            Err(error) => {
                let body = format!("{error:#}\n");
                text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, body)
            }
        },
        "/" => text(StatusCode::OK, PLAIN, INDEX.into()),
        _ => text(StatusCode::NOT_FOUND, PLAIN, INDEX.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{
            Read,
            Write, //
        },
        net,
        sync::mpsc,
        thread, //
    };

    #[test]
    fn address_may_be_a_port_of_this_host() {
        let address = |text: &str| text.parse::<Address>().map(|address| address.0.to_string());
        assert_eq!(address("9815").unwrap(), "127.0.0.1:9815");
        assert_eq!(address("[::]:80").unwrap(), "[::]:80");
        for text in ["", "localhost", "70000", "::1", "1.2.3.4"] {
            let error = address(text).unwrap_err().to_string();
            assert!(error.contains("9815"), "{text}");
        }
    }

    /// Starts a server on a free port.
    fn start() -> SocketAddr {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let source: Rc<Source> = Rc::new(|| Ok("metric 1\n# EOF\n".into()));
                accept(listener, source).await.unwrap();
            });
        });
        receiver.recv().unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn requests_get_their_answers_by_http() {
        let address = start();
        let get = |line: &str| {
            let head = "Host: test\r\nConnection: close\r\n\r\n";
            ask(address, &format!("{line} HTTP/1.1\r\n{head}"))
        };
        let metrics = get("GET /metrics");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert!(
            metrics.contains("application/openmetrics-text"),
            "{metrics}"
        );
        assert!(metrics.ends_with("\r\n\r\nmetric 1\n# EOF\n"), "{metrics}");
        assert!(get("GET /").contains("/metrics"));
        assert!(get("GET /other").starts_with("HTTP/1.1 404"));
        assert!(get("POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn failure_of_the_machine_is_status_500() {
        let source = || bail!("no such file");
        let response = answer(&Method::GET, "/metrics", &source);
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn silent_clients_leave_places_for_others() {
        let address = start();
        let silent: Vec<_> = (0..CLIENTS - 1)
            .map(|_| net::TcpStream::connect(address).unwrap())
            .collect();
        let head = "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        assert!(ask(address, head).starts_with("HTTP/1.1 200"));
        drop(silent);
    }
}

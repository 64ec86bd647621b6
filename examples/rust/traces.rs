//! Traces with OpenTelemetry: a span for each call, whose context the service
//! receives as `traceparent`.
//!
//! Takes the service's URL and key from `DEALKIT_BASE_URL` and
//! `DEALKIT_SERVICE_KEY`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use dealkit::Client;
use opentelemetry::{global, trace::TracerProvider as _};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider},
};
use tracing::Instrument as _;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A real program has an OTLP exporter here; this one prints the spans.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    let own = Targets::new()
        .with_target("traces", tracing::Level::INFO) // This program.
        // An event for each attempt.
        .with_target("dealkit", tracing::Level::DEBUG);
    let traces =
        tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(traces.with_filter(own)),
    )?;

    let client = Client::builder()
        .base_url(std::env::var("DEALKIT_BASE_URL")?)
        .service_key(std::env::var("DEALKIT_SERVICE_KEY")?)
        // Each call propagates the context of its own span.
        .propagate(|headers| {
            let context = tracing::Span::current().context();
            global::get_text_map_propagator(|propagator| {
                propagator
                    .inject_context(&context, &mut HeaderInjector(headers));
            });
        })
        .build()?;

    let report = tracing::info_span!("report");
    client
        .deals()
        .retrieve("d_1")
        .send()
        .instrument(report)
        .await?;

    for span in exporter.get_finished_spans()? {
        let context = span.span_context;
        let (trace, id) = (context.trace_id(), context.span_id());
        println!(
            "{} trace={trace} span={id} parent={}",
            span.name, span.parent_span_id
        );
        for attribute in span.attributes {
            if !attribute.key.as_str().starts_with("code.") {
                println!("  {} = {}", attribute.key, attribute.value);
            }
        }
    }
    Ok(())
}

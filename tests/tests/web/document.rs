//! The OpenAPI document.

use hworker_tests::TestServer;

use crate::site::Site;

#[test]
fn i15_the_document_is_the_one_in_docs() {
    // `docs/openapi.json` is what the handlers say. UPDATE_SNAPSHOTS=1 writes it anew.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let document = hworker::web::openapi() + "\n";
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(file, &document).expect("written");
    }
    let kept = std::fs::read_to_string(file).expect("the document in docs");
    assert!(kept == document, "docs/openapi.json is not what the handlers say: UPDATE_SNAPSHOTS=1");
}

#[test]
fn i15_the_document_is_served_with_the_path_under_which_it_is() {
    let site = Site::of(&TestServer::start());
    let served = site.get("/api/v1/openapi.json").expect(200).json();
    assert_eq!(served["servers"][0]["url"], "/");
    let own: serde_json::Value = serde_json::from_str(&hworker::web::openapi()).expect("JSON");
    assert_eq!(served["paths"], own["paths"]);
    let mut ids = std::collections::BTreeSet::new();
    for (path, methods) in own["paths"].as_object().expect("paths") {
        let named: Vec<_> = path.split(['{', '}']).skip(1).step_by(2).collect();
        let parameters = methods["parameters"].as_array().expect("the names in its path");
        assert_eq!(parameters.iter().map(|one| &one["name"]).collect::<Vec<_>>(), named, "{path}");
        let methods = methods.as_object().expect("methods").iter();
        for (method, operation) in methods.filter(|(method, _)| *method != "parameters") {
            assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}: its id");
            let said = operation["summary"].as_str().or(operation["description"].as_str());
            assert!(said.is_some(), "{method} {path} has no description");
            for statuses in ["4XX", "5XX"] {
                assert!(operation["responses"][statuses].is_object(), "{method} {path}");
            }
        }
    }
}

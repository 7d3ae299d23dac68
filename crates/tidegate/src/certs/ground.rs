//! What a plan of certificates stands on: manifests with whatever a state folder holds, or what a cluster has, with the
//! settings of its controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::{Object, ObjectKey};
use tidegate_certs::{ChallengeKind, Demand, LETS_ENCRYPT, Policies};
use tidegate_kubernetes::certmanager::{Bounds, There};
use tidegate_kubernetes::remote::{self, Leader, Objects};
use tidegate_kubernetes::{ADMIN_PORT, Client, HEALTH_PORT};
use tidegate_plan::ObjectName;
use tidegate_translate::{CONTROLLER_NAME, Change, Settings, Source, Translation, Translator, Wants};

use crate::arguments::{CertsPlan, Controller, GroupingOptions, IssuerChoice};
use crate::certs::cert_manager::CertManager;
use crate::certs::default_issuer;
use crate::certs::kept::{self, Kept};
use crate::cluster::asking;
use crate::meaning::Meaning;
use crate::output::{Error, Terminal};
use crate::run::challenges::answerable;

pub(super) struct Ground {
    /// Those of the Gateway that was asked for, or of all.
    pub(super) wants: Vec<Arc<Wants>>,
    /// What is asked of issuers of ours, in all.
    pub(super) demand: Demand,
    pub(super) kept: Kept,
    pub(super) policies: Policies,
    /// Where each ACME account is.
    pub(super) directories: BTreeMap<tidegate_certs::Issuer, String>,
    /// By which challenges the names of each Gateway can be proved.
    pub(super) challenges: BTreeMap<ObjectName, Vec<ChallengeKind>>,
    pub(super) cert_manager: CertManager,
    /// The Certificates that there are.
    pub(super) there: There,
    pub(super) source: Source,
}

impl Ground {
    pub(super) fn of_folder(options: &CertsPlan, terminal: &mut Terminal) -> Result<Self, Error> {
        let settings = Settings { issuer: default_issuer(options.certs), ..Settings::folder() };
        let meaning = Meaning::under(&options.paths, settings)?;
        meaning.report(terminal);
        let kept = match &options.state {
            Some(state) => kept::of_folder(state, terminal)?,
            None => Kept::default(),
        };
        let translation = meaning.translation();
        let namespace = options.namespace.as_deref().unwrap_or("default");
        let only = options.gateway.as_deref().map(|name| ObjectName::new(namespace, name));
        Ok(Self {
            wants: wants(translation, only.as_ref()),
            demand: meaning.demand(),
            kept,
            policies: options.grouping.policies(),
            directories: directories(&options.grouping, options.acme_directory.as_deref()),
            challenges: challenges(translation, Source::Folder),
            cert_manager: CertManager::of(
                translation,
                meaning.resources(),
                &There::default(),
                options.grouping.bounds(),
                true,
            ),
            there: There::default(),
            source: Source::Folder,
        })
    }

    pub(super) fn of_cluster(options: &CertsPlan, terminal: &mut Terminal) -> Result<Self, Error> {
        asking(async {
            let (client, own) = remote::connect(options.context.as_deref()).await?;
            let namespace = options.namespace.as_deref().unwrap_or(&own);
            let gateway = ObjectName::new(namespace, options.gateway.as_deref().unwrap_or_default());
            of_gateway(&client, gateway, options.certs, &options.grouping, terminal).await
        })
    }
}

fn wants(translation: &Translation, only: Option<&ObjectName>) -> Vec<Arc<Wants>> {
    let all = translation.wants.values();
    all.filter(|wants| only.is_none_or(|only| wants.listener.gateway == *only)).cloned().collect()
}

/// What `certs` and `grouping` say goes before what the controller was started with.
pub(super) async fn of_gateway(
    client: &Client,
    gateway: ObjectName,
    certs: Option<IssuerChoice>,
    grouping: &GroupingOptions,
    terminal: &mut Terminal,
) -> Result<Ground, Error> {
    let mut found = Objects::list(client).await?;
    for (key, why) in &found.unread {
        terminal.warning(&format!("{key} is left out: {why}"));
    }
    for why in &found.unlisted {
        terminal.warning(&format!("what there is of them is not known here: {why}"));
    }
    let name = controller_of(&found.objects, &gateway).map_err(Error::Start)?;
    let controller = match remote::leaders(client).await {
        Ok(leaders) => started(&leaders, &name),
        Err(error) => Err(error.to_string()),
    };
    let controller = match controller {
        Ok(controller) => Some(controller),
        Err(why) if name == CONTROLLER_NAME => {
            terminal.warning(&format!("how the controller was started is not known here: {why}"));
            None
        }
        Err(why) => return Err(Error::Start(format!("Gateway {gateway} is of controller {name}: {why}"))),
    };
    let settings = Settings {
        controller_name: name.as_str().into(),
        reserved_ports: vec![ADMIN_PORT, HEALTH_PORT],
        issuer: default_issuer(certs.or(controller.as_ref().and_then(|one| one.certs))),
        ..Settings::cluster()
    };
    let mut translator = Translator::new(settings);
    translator.apply(std::mem::take(&mut found.objects).into_iter().map(Change::Upsert));
    let maps = Objects::config_maps(client, translator.data_asked_for()).await?;
    translator.apply(maps.into_iter().map(Change::Upsert));
    let translation = translator.translation();
    for note in translation.notes.get(&gateway_key(&gateway)).into_iter().flatten() {
        terminal.warning(&format!("Gateway {gateway}: {}", note.message));
    }
    let (foreign, kept) = match found.foreign(&name) {
        Some(foreign) => {
            let mut kept = kept::of_cluster(client, None, Some(&name), terminal).await?;
            kept.certificates.retain(|certificate| !foreign.contains(&certificate.held.secret));
            (foreign, kept)
        }
        None => (BTreeSet::new(), Kept::default()),
    };
    let there = Objects::certificates(client).await.unwrap_or_else(|error| {
        terminal.warning(&error.to_string());
        There::default()
    });
    let is_asked = controller.as_ref().is_none_or(|controller| controller.cert_manager);
    Ok(Ground {
        wants: wants(translation, Some(&gateway)),
        demand: tidegate_issuing::demand(translation.wants.values(), foreign, Source::Cluster),
        kept,
        policies: policies(grouping, controller.as_ref()),
        directories: controller.as_ref().map_or_else(
            || directories(grouping, None),
            |controller| {
                let issuers = &controller.issuers;
                directories(&grouping.over(&issuers.grouping), Some(&issuers.acme_directory))
            },
        ),
        challenges: challenges(translation, Source::Cluster),
        cert_manager: CertManager::of(
            translation,
            translator.resources(),
            &there,
            bounds(grouping, controller.as_ref()),
            is_asked,
        ),
        there,
        source: Source::Cluster,
    })
}

fn directories(
    grouping: &GroupingOptions,
    default: Option<&str>,
) -> BTreeMap<tidegate_certs::Issuer, String> {
    let named = grouping.acme_account.iter();
    let named = named
        .map(|account| (tidegate_certs::Issuer::Acme(Arc::clone(&account.name)), account.directory.clone()));
    let default = (tidegate_certs::Issuer::acme(), default.unwrap_or(LETS_ENCRYPT).to_owned());
    std::iter::once(default).chain(named).collect()
}

/// A CA comes to any data plane of one machine, and to those of the Gateway in a cluster.
fn challenges(translation: &Translation, source: Source) -> BTreeMap<ObjectName, Vec<ChallengeKind>> {
    let gateways = translation.wants.values().map(|wants| &wants.listener.gateway);
    let own = |gateway| Some(gateway).filter(|_| source == Source::Cluster);
    gateways.map(|gateway| (gateway.clone(), answerable(&translation.plan, own(gateway)))).collect()
}

fn gateway_key(name: &ObjectName) -> ObjectKey {
    ObjectKey { kind: tidegate_api::Kind::Gateway, name: name.clone() }
}

/// The controllerName of a Gateway's class.
fn controller_of(objects: &[Object], gateway: &ObjectName) -> Result<String, String> {
    let class = objects.iter().find_map(|object| match object {
        Object::Gateway(found) if found.meta.object_name() == *gateway => {
            Some(found.spec.gateway_class_name.as_str())
        }
        _ => None,
    });
    let class = class.ok_or_else(|| format!("there is no Gateway {gateway}"))?;
    let name = objects.iter().find_map(|object| match object {
        Object::GatewayClass(found) if &*found.meta.name == class => {
            Some(found.spec.controller_name.to_string())
        }
        _ => None,
    });
    name.ok_or_else(|| format!("Gateway {gateway} is of GatewayClass {class}, which is not there"))
}

/// How the controller of that name was started.
fn started(leaders: &[Leader], name: &str) -> Result<Controller, String> {
    let read: Vec<Option<Controller>> =
        leaders.iter().map(|leader| Controller::started(&leader.arguments)).collect();
    let unreadable =
        leaders.iter().zip(&read).find(|(_, read)| read.is_none()).map(|(leader, _)| &leader.pod);
    let unreadable = unreadable.map(|pod| format!("arguments of Pod {pod} are unknown to this version"));
    let found = read.into_iter().flatten().find(|controller| controller.controller_name == name);
    found.ok_or_else(|| unreadable.unwrap_or_else(|| "no Pod of Tidegate's leads under that name".to_owned()))
}

/// How the issuers are asked that the controller has; all of them, where it is not known.
fn policies(grouping: &GroupingOptions, controller: Option<&Controller>) -> Policies {
    let Some(controller) = controller else { return grouping.policies() };
    let mut policies = grouping.over(&controller.issuers.grouping).policies();
    let has = |choice: IssuerChoice| controller.issuer.contains(&choice);
    policies
        .retain(|issuer, _| has(if issuer.is_acme() { IssuerChoice::Acme } else { IssuerChoice::Embedded }));
    policies
}

/// How the controller asks cert-manager.
fn bounds(grouping: &GroupingOptions, controller: Option<&Controller>) -> Bounds {
    controller
        .map_or_else(|| grouping.bounds(), |controller| grouping.over(&controller.issuers.grouping).bounds())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use tidegate_certs::{Grouping, Issuer};

    use super::*;
    use crate::arguments::{Arguments, CertsCommand, Command};
    use crate::source::Manifests;

    fn options(words: &str) -> CertsPlan {
        let words = format!("tidegate certs plan --gateway web {words}");
        match Arguments::parse_from(words.split_whitespace()).command {
            Command::Certs(certs) => match certs.command {
                CertsCommand::Plan(options) => options,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn leader(pod: &str, words: &str) -> Leader {
        let arguments = words.split_whitespace().map(str::to_owned).collect();
        Leader { pod: ObjectName::new("tidegate-system", pod), arguments }
    }

    #[test]
    fn the_controller_says_how_issuers_are_asked_and_the_command_goes_before_it() {
        let leaders = [
            leader("newer", "controller --image=a --flag-of-tomorrow"),
            leader("other", "controller --image=a --controller-name=example.com/other"),
            leader("ours", "controller --image=a --issuer=acme --certs=acme --certificate-per=name"),
        ];
        let controller = started(&leaders, CONTROLLER_NAME).expect("it is there");
        assert_eq!(controller.certs, Some(IssuerChoice::Acme));
        let grouping = |words: &str, controller: Option<&Controller>| {
            let policies = policies(&options(words).grouping, controller);
            policies.into_iter().map(|(issuer, policy)| (issuer, policy.grouping)).collect::<Vec<_>>()
        };
        assert_eq!(grouping("", Some(&controller)), [(Issuer::acme(), Grouping::Name)]);
        let asked = grouping("--certificate-per listener", Some(&controller));
        assert_eq!(asked, [(Issuer::acme(), Grouping::Listener)]);
        assert_eq!(grouping("", None).len(), 2, "nobody knows which it has");
    }

    #[test]
    fn cert_manager_is_asked_within_the_same_bounds() {
        let words = "controller --image=a --cert-manager --certificate-per=name --names-per-certificate=7 --gather-names=1m";
        let controller = started(&[leader("ours", words)], CONTROLLER_NAME).expect("it is there");
        let bounds = Bounds { together: Grouping::Name, names: 7, gather: Duration::from_secs(60) };
        assert_eq!(controller.settings().expect("settings").cert_manager, Some(bounds));
        assert_eq!(super::bounds(&options("").grouping, Some(&controller)), bounds);
        let asked = super::bounds(&options("--names-per-certificate 2").grouping, Some(&controller));
        assert_eq!(asked, Bounds { names: 2, ..bounds });
        let asked = super::bounds(&options("--certificate-per listener").grouping, Some(&controller));
        assert_eq!(asked, Bounds { together: Grouping::Listener, ..bounds });
        assert_eq!(super::bounds(&options("").grouping, None), Bounds::default());
    }

    #[test]
    fn a_controller_that_cannot_be_found_is_not_made_up() {
        let newer = [leader("newer", "controller --image=a --flag-of-tomorrow")];
        assert!(started(&newer, CONTROLLER_NAME).unwrap_err().contains("Pod tidegate-system/newer"));
        assert!(started(&[], CONTROLLER_NAME).unwrap_err().contains("no Pod"));
    }

    #[test]
    fn whose_a_gateway_is_its_class_says() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/certificates");
        let manifests = Manifests::read(&[example.into()]).expect("manifests");
        let mut objects: Vec<Object> = manifests.resources().iter().collect();
        let front = ObjectName::new("default", "front");
        assert_eq!(controller_of(&objects, &front).as_deref(), Ok(CONTROLLER_NAME));
        let none = controller_of(&objects, &ObjectName::new("default", "none"));
        assert_eq!(none.unwrap_err(), "there is no Gateway default/none");
        objects.retain(|object| !matches!(object, Object::GatewayClass(_)));
        assert!(controller_of(&objects, &front).unwrap_err().ends_with("which is not there"));
    }
}

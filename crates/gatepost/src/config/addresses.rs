//! Addresses that are written for more than one listener.

use gatepost_settings::Bind;
use gatepost_settings::layers::{Layers, Mistake};

use super::settings::ListenersSettings;

/// Addresses that are written twice: the start would report that another program has them.
pub(super) fn repeated(listeners: &ListenersSettings, layers: &Layers) -> Vec<Mistake> {
    let mut known: Vec<(&Bind, String)> = Vec::new();
    let mut mistakes = Vec::new();
    let bindings = listeners.bindings();
    for binding in &bindings {
        let name = format!("listeners.{}", binding.listener);
        let own = binding.bind.iter().map(|bind| (bind, "bind"));
        let of_tls = binding.tls.bind.iter().map(|bind| (bind, "tls.bind"));
        for (bind, setting) in own.chain(of_tls).filter(|(bind, _)| is_fixed(bind)) {
            let key = format!("{name}.{setting}");
            match known.iter().find(|(other, _)| *other == bind) {
                Some((_, other)) => {
                    let reason = format!("{bind} is an address of {other} too");
                    mistakes.push(Mistake::new(layers.origin(&key), key, reason));
                }
                None => known.push((bind, key)),
            }
        }
    }
    mistakes
}

/// Port 0 is another port each time.
fn is_fixed(bind: &Bind) -> bool {
    !matches!(bind, Bind::Tcp(address) if address.port() == 0)
}

//! Directives of rule files and preferences for AWL and TxRep.

use gatepost_mail::Directive;

/// The settings of AWL and TxRep from rule files.
///
/// The rule that calls one of them decides which one runs; a rule of a disabled one does not hit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReputationSettings {
    /// `…auto_welcomelist…`.
    pub awl: AwlSettings,
    /// `…txrep…`.
    pub txrep: TxrepSettings,
}

/// The settings of AWL. Each directive has an older form with `whitelist`.
#[derive(Clone, Debug, PartialEq)]
pub struct AwlSettings {
    /// Its plugin is loaded.
    pub is_loaded: bool,
    /// `use_auto_welcomelist`.
    pub enabled: bool,
    /// `auto_welcomelist_factor`: how far a score moves towards the average, 0 to 1.
    pub factor: f64,
    /// `auto_welcomelist_ipv4_mask_len`: the prefix length of an IPv4 network.
    pub ipv4_bits: u8,
    /// `auto_welcomelist_ipv6_mask_len`: the prefix length of an IPv6 network.
    pub ipv6_bits: u8,
}

/// The settings of TxRep.
#[derive(Clone, Debug, PartialEq)]
pub struct TxrepSettings {
    /// `use_txrep`. It does not run beside AWL.
    pub enabled: bool,
    /// `txrep_factor`: how far a score moves towards the averages, 0 to 1.
    pub factor: f64,
    /// `txrep_learn_penalty`: the points that learning as spam adds.
    pub learn_penalty: f64,
    /// `txrep_learn_bonus`: the points that learning as ham subtracts.
    pub learn_bonus: f64,
    /// `txrep_welcomelist_out`: the points that are subtracted from the average of a sender to
    /// which local users write.
    pub welcomelist_out: f64,
    /// `txrep_track_messages`: a message that arrives again counts once.
    pub track_messages: bool,
    /// `txrep_ipv4_mask_len`.
    pub ipv4_bits: u8,
    /// `txrep_ipv6_mask_len`.
    pub ipv6_bits: u8,
    /// `txrep_weight_…`.
    pub weights: Weights,
}

/// The weight of each average in TxRep.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The address alone.
    pub email: f64,
    /// The address from a network.
    pub email_ip: f64,
    /// The domain.
    pub domain: f64,
    /// The network.
    pub ip: f64,
    /// The relay's name.
    pub helo: f64,
}

impl AwlSettings {
    /// Whether AWL runs: its plugin is loaded and it is enabled.
    pub fn is_in_force(&self) -> bool {
        self.is_loaded && self.enabled
    }
}

impl Default for AwlSettings {
    fn default() -> Self {
        Self {
            is_loaded: false,
            enabled: true,
            factor: 0.5,
            ipv4_bits: 16,
            ipv6_bits: 48,
        }
    }
}

impl Default for TxrepSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            factor: 0.5,
            learn_penalty: 20.0,
            learn_bonus: 20.0,
            welcomelist_out: 10.0,
            track_messages: true,
            ipv4_bits: 16,
            ipv6_bits: 48,
            weights: Weights {
                email: 3.0,
                email_ip: 10.0,
                domain: 2.0,
                ip: 4.0,
                helo: 0.5,
            },
        }
    }
}

impl ReputationSettings {
    /// Processes one line of a rule file: the directive and the rest after the first blank.
    pub fn directive(&mut self, name: &str, value: &str) -> Directive {
        let name = name.replace("whitelist", "welcomelist");
        let (awl, txrep) = (&mut self.awl, &mut self.txrep);
        let weights = &mut txrep.weights;
        match name.as_str() {
            "use_auto_welcomelist" => flag(value, &mut awl.enabled),
            "auto_welcomelist_factor" => number(value, 0.0, 1.0, &mut awl.factor),
            "auto_welcomelist_ipv4_mask_len" => bits(value, 32, &mut awl.ipv4_bits),
            "auto_welcomelist_ipv6_mask_len" => bits(value, 128, &mut awl.ipv6_bits),
            "use_txrep" => flag(value, &mut txrep.enabled),
            "txrep_factor" => number(value, 0.0, 1.0, &mut txrep.factor),
            "txrep_learn_penalty" => number(value, 0.0, 200.0, &mut txrep.learn_penalty),
            "txrep_learn_bonus" => number(value, 0.0, 200.0, &mut txrep.learn_bonus),
            "txrep_welcomelist_out" => number(value, 0.0, 200.0, &mut txrep.welcomelist_out),
            "txrep_track_messages" => flag(value, &mut txrep.track_messages),
            "txrep_ipv4_mask_len" => bits(value, 32, &mut txrep.ipv4_bits),
            "txrep_ipv6_mask_len" => bits(value, 128, &mut txrep.ipv6_bits),
            "txrep_weight_email" => number(value, 0.0, 10.0, &mut weights.email),
            "txrep_weight_email_ip" => number(value, 0.0, 10.0, &mut weights.email_ip),
            "txrep_weight_domain" => number(value, 0.0, 10.0, &mut weights.domain),
            "txrep_weight_ip" => number(value, 0.0, 10.0, &mut weights.ip),
            "txrep_weight_helo" => number(value, 0.0, 10.0, &mut weights.helo),
            _ => Directive::Unknown,
        }
    }
}

fn flag(value: &str, target: &mut bool) -> Directive {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => *target = true,
        "0" | "no" | "false" | "off" => *target = false,
        _ => return Directive::Invalid(format!("{value} is neither 0 nor 1")),
    }
    Directive::Taken
}

fn number(value: &str, min: f64, max: f64, target: &mut f64) -> Directive {
    match value.trim().parse() {
        Ok(number) if (min..=max).contains(&number) => {
            *target = number;
            Directive::Taken
        }
        _ => Directive::Invalid(format!("{value} is not a number from {min} to {max}")),
    }
}

fn bits(value: &str, max: u8, target: &mut u8) -> Directive {
    match value.trim().parse() {
        Ok(number) if number <= max => {
            *target = number;
            Directive::Taken
        }
        _ => Directive::Invalid(format!("{value} is not a number of bits from 0 to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_names_are_accepted_and_mistakes_reported() {
        let mut settings = ReputationSettings::default();
        let mut take = |name, value| settings.directive(name, value);
        assert_eq!(take("use_auto_whitelist", "0"), Directive::Taken);
        assert_eq!(take("auto_welcomelist_factor", "0.25"), Directive::Taken);
        assert_eq!(take("txrep_weight_helo", "1"), Directive::Taken);
        assert!(matches!(take("txrep_factor", "2"), Directive::Invalid(_)));
        assert!(matches!(
            take("txrep_ipv4_mask_len", "33"),
            Directive::Invalid(_)
        ));
        assert_eq!(take("score", "A 1"), Directive::Unknown);
        assert!(!settings.awl.enabled);
        assert!((settings.awl.factor - 0.25).abs() < f64::EPSILON);
    }
}

//! Warms up a rule set, so that the first messages are scanned without a delay.
//!
//! Patterns are compiled, and the automata of their first bytes made, when a message first needs
//! them, so that loading is quick. The first message then takes as long as fifty later ones, and
//! each new message may need patterns that no message before it needed. So that senders need not
//! wait for this, a server scans some ordinary mail of its own while its listeners already accept
//! connections, and then compiles all patterns. Nothing is learned from that mail, no DNS query is
//! sent, and its hits are discarded.

use gatepost_pattern::SAMPLE_TEXT;

use super::RuleSet;

/// A mail to one person, from an ordinary mail program.
const PERSONAL: &str = "\
Return-Path: <john.smith@mail.example.com>\r
Received: from mail.example.com (mail.example.com [192.0.2.25])\r
\tby mx.example.org (Postfix) with ESMTPS id 4F1A22C0D3\r
\tfor <anna@example.org>; Tue, 20 Aug 2024 10:15:32 +0000 (UTC)\r
Received: from [10.0.0.7] (dsl-10-0-0-7.dynamic.example.net [198.51.100.7])\r
\tby mail.example.com with ESMTPSA id k12sm1000000; Tue, 20 Aug 2024 10:15:31 +0000\r
From: John Smith <john.smith@mail.example.com>\r
To: Anna Jones <anna@example.org>, office@example.org\r
Cc: \"Team, The\" <team@example.com>\r
Subject: Re: Your message about the new offer for the team\r
Date: Tue, 20 Aug 2024 10:15:31 +0000\r
Message-ID: <1c9f7a52-77aa-4c5e@mail.example.com>\r
In-Reply-To: <20240819.1234@example.org>\r
References: <20240819.1234@example.org>\r
User-Agent: Mozilla Thunderbird\r
MIME-Version: 1.0\r
Content-Type: text/plain; charset=UTF-8; format=flowed\r
Content-Transfer-Encoding: 8bit\r
\r
";

/// The same text as a newsletter, in plain text and HTML.
const NEWSLETTER: &str = "\
Return-Path: <bounce-1234-anna=example.org@news.example.com>\r
Received: from out7.news.example.com (out7.news.example.com [203.0.113.7])\r
\tby mx.example.org (Postfix) with ESMTP id 9B2C11D0F4\r
\tfor <anna@example.org>; Tue, 20 Aug 2024 11:00:02 +0000 (UTC)\r
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=news.example.com; s=k1;\r
\th=From:To:Subject:Date; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=dGVzdA==\r
From: \"Example News\" <news@news.example.com>\r
Reply-To: news-reply@news.example.com\r
To: anna@example.org\r
Subject: =?UTF-8?Q?New_this_week:_100%_off_your_first_order_=E2=80=93_act_now!?=\r
Date: Tue, 20 Aug 2024 11:00:00 +0000\r
Message-ID: <20240820110000.1234.5678@news.example.com>\r
List-Id: Example News <news.example.com>\r
List-Unsubscribe: <https://news.example.com/unsubscribe?id=1234>\r
Precedence: bulk\r
X-Mailer: Example Mailer 2.1\r
X-Priority: 3\r
MIME-Version: 1.0\r
Content-Type: multipart/alternative; boundary=\"=_page_1\"\r
\r
";

/// The length at which lines are wrapped, in bytes.
const LINE_BYTES: usize = 72;

impl RuleSet {
    /// Scans a few ordinary messages and then compiles all patterns, in this order because the
    /// first real messages may arrive meanwhile, and need the patterns that most mail needs. Takes
    /// some tenths of a second of one core and may run beside scans; scans give the same with and
    /// without it.
    pub fn warm_up(&self) {
        for message in ordinary_messages() {
            let mail = self.configuration().scanned(message.as_bytes(), None);
            self.run_discarding(&mail);
        }
        // Where Bayes runs, the messages have made its program.
        let compiled = self.with_bayes.get().unwrap_or(&self.plain);
        for (_, pattern) in compiled.program.patterns() {
            pattern.make_ready();
        }
    }
}

fn ordinary_messages() -> [String; 2] {
    let page = wrapped(SAMPLE_TEXT);
    let paragraphs = page.replace(".\r\n", ".\r\n\r\n");
    let html = format!(
        "<html><head><title>News</title><style>p {{ color: #222 }}</style></head><body>\
         <table width=\"600\"><tr><td><p style=\"font-size: 12px\">{page}</p>\r\n\
         <a href=\"https://news.example.com/offer?id=1234\">Click here</a> <img \
         src=\"https://img.example.com/logo.png\" width=1 \
         height=1></td></tr></table></body></html>\r\n"
    );
    let newsletter = format!(
        "{NEWSLETTER}--=_page_1\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{paragraphs}\r\n\
         --=_page_1\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n--=_page_1--\r\n"
    );
    [format!("{PERSONAL}{page}\r\n{paragraphs}"), newsletter]
}

fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / LINE_BYTES * 2);
    let mut line = 0;
    for word in text.split(' ') {
        if line + word.len() > LINE_BYTES {
            out.push_str("\r\n");
            line = 0;
        } else if line > 0 {
            out.push(' ');
        }
        out.push_str(word);
        line += word.len() + 1;
    }
    out.push_str("\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RulesSettings, ScanContext};
    use gatepost_learning::Learning;

    const RULES: &str = "\
body FREE /your order is free/\n\
header HAS_LIST exists:List-Id\n\
uri NEWS m{^https://news\\.example\\.com/}\n\
score FREE 5\n\
bayes_auto_learn_threshold_spam 6\n";

    /// The scanned messages have all parts of mail, and no result of them is kept.
    #[test]
    fn a_warm_set_judges_as_a_cold_one_and_has_learned_nothing() {
        let (set, problems) =
            RuleSet::from_text("a.cf", RULES.as_bytes(), &RulesSettings::default());
        assert!(problems.is_empty(), "{problems:?}");
        let set = set.with_learning(Learning::in_memory());
        let scan = |set: &RuleSet| {
            let reports = ordinary_messages().map(|message| {
                let report = set.scan(message.as_bytes(), &ScanContext::default());
                let names = report.hits.iter().map(|hit| hit.name.to_string());
                (report.score, names.collect::<Vec<_>>())
            });
            format!("{reports:?}")
        };
        let learned = |set: &RuleSet| {
            let learning = set.learning().map(|learning| learning.bayes.statistics());
            format!("{learning:?}")
        };
        let nothing = learned(&set);
        set.warm_up();
        assert_eq!(learned(&set), nothing);
        let (cold, _) = RuleSet::from_text("a.cf", RULES.as_bytes(), &RulesSettings::default());
        let cold = scan(&cold);
        assert!(
            cold.contains("FREE") && cold.contains("HAS_LIST") && cold.contains("NEWS"),
            "{cold}"
        );
        assert_eq!(scan(&set), cold);
    }
}

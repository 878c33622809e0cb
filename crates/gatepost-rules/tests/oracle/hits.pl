#!/usr/bin/perl
# Asks SpamAssassin itself: reads lines "ID<tab>PATH", prints lines "ID<tab>SCORE<tab>RULE,RULE…",
# with local tests only (but with NETWORK set): no network, no Bayes, no sender history. The environment names the folders:
# RULES, SITE (plugin lists and settings), STATE (for its own files), and EXTRA holds further lines.
#
# Each message has a process of its own, forked when all rules are compiled: a pattern with %{NAME}
# keeps the values of the first message that it sees for all later ones of its process.
use strict;
use warnings;
use Mail::SpamAssassin;
use POSIX ();

my $judge = Mail::SpamAssassin->new({
    rules_filename      => $ENV{RULES},
    site_rules_filename => $ENV{SITE},
    userprefs_filename  => '/dev/null',
    userstate_dir       => $ENV{STATE},
    local_tests_only    => $ENV{NETWORK} ? 0 : 1,
    dont_copy_prefs     => 1,
    post_config_text    => "use_bayes 0\nuse_auto_welcomelist 0\nuse_txrep 0\ntime_limit 0\n"
        . ($ENV{EXTRA} // ''),
});
$judge->init(1);
$judge->compile_now(1);

$| = 1;
while (my $line = <STDIN>) {
    chomp $line;
    my ($id, $path) = split /\t/, $line, 2;
    if (my $child = fork) {
        waitpid $child, 0;
        die "SpamAssassin broke off at $path\n" if $?;
        next;
    }
    open my $file, '<:raw', $path or die "$path: $!\n";
    my $text = do { local $/; <$file> };
    close $file;
    my $message = $judge->parse($text, 0);
    my $status  = $judge->check($message);
    my $hits    = join ',', sort split /,/, $status->get_names_of_tests_hit;
    print join("\t", $id, $status->get_score + 0, $hits), "\n";
    POSIX::_exit(0);
}

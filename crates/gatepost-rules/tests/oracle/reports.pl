#!/usr/bin/perl
# Asks SpamAssassin itself how it reports messages: reads paths, and prints of each the fields that it adds,
# but for the one that names the program, and the text of the report. The environment names the folders RULES,
# SITE (plugin lists) and STATE (for its own files).
#
# Each message has a process of its own, since learning, averages and captured texts are to be as at the first.
use strict;
use warnings;
use Mail::SpamAssassin;
use POSIX ();

$| = 1;
while (my $path = <STDIN>) {
    chomp $path;
    if (my $child = fork) {
        waitpid $child, 0;
        die "SpamAssassin broke off at $path\n" if $?;
        next;
    }
    my $judge = Mail::SpamAssassin->new({
        rules_filename      => $ENV{RULES},
        site_rules_filename => $ENV{SITE},
        userprefs_filename  => '/dev/null',
        userstate_dir       => $ENV{STATE},
        local_tests_only    => 1,
        dont_copy_prefs     => 1,
        post_config_text    => "report_safe 0\ntime_limit 0\nbayes_path $ENV{STATE}/bayes\n",
    });
    $judge->init(1);
    open my $file, '<:raw', $path or die "$path: $!\n";
    my $text = do { local $/; <$file> };
    close $file;
    my $status = $judge->check($judge->parse($text, 0));
    my ($head) = split /\n\n/, $status->rewrite_mail, 2;
    $head =~ s/\n(?![ \t])/\0/g;
    my @fields = grep { /^X-Spam-(?!Checker-Version)/ } split /\0/, $head;
    print join("\n", '==== fields', @fields), "\n==== report\n", $status->get_report, "==== end\n";
    POSIX::_exit(0);
}

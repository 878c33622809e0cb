# Functions of the commands in this folder, which have the options of SpamAssassin's programs and run
# the program under test, `$GATEPOST`, instead.
package Gatepost;

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp ();
use Getopt::Long qw(:config bundling no_ignore_case);
use Time::HiRes ();

our $program = $ENV{GATEPOST} || die "GATEPOST names the program under test\n";

# Options of all programs: the folders of rules, and preferences.
sub rule_options {
    my ($options) = @_;
    return (
        'configpath|config-file|config-dir|C=s' => \$options->{rules},
        'siteconfigpath=s'                      => \$options->{site},
        'prefspath|prefs-file|p=s'              => \$options->{preferences},
        'cf=s'                                  => \@{ $options->{lines} },
        'local|local-only|L'                    => \$options->{local},
        'debug|D:s'                             => \$options->{debug},
        'nocreate-prefs|x'                      => sub { },
        'create-prefs|c'                        => sub { },
    );
}

# The rule folders in the order in which SpamAssassin reads them, then the lines of `--cf`.
sub rule_paths {
    my ($options) = @_;
    my @paths = grep { defined } $options->{rules}, $options->{site};
    if (@{ $options->{lines} || [] }) {
        my $file = work_folder($options) . "/lines.cf";
        open my $out, '>', $file or die "$file: $!\n";
        print $out map { "$_\n" } @{ $options->{lines} };
        close $out or die "$file: $!\n";
        push @paths, $file;
    }
    return @paths;
}

# The folder of a test's files: that of its preferences or its rules.
sub work_folder {
    my ($options) = @_;
    return dirname($options->{preferences} // $options->{rules} // 'log/none/rules');
}

# The folder of learned data. A test that replaces the database of its preferences begins without any.
sub data_folder {
    my ($options) = @_;
    my $folder = work_folder($options) . '/gatepost-data';
    my $database = database($options);
    return $folder unless defined $database;
    # Not in whole seconds: a new file often has the number of the one before it.
    my $made = join ' ', (Time::HiRes::stat($database))[1, 10];
    my $noted = -e "$folder.made" ? do { local @ARGV = ("$folder.made"); <> } : $made;
    system 'rm', '-rf', $folder if $noted ne $made;
    open my $out, '>', "$folder.made" or die "$folder.made: $!\n";
    print $out $made;
    close $out or die "$folder.made: $!\n";
    return $folder;
}

# The SQLite database that the rules or preferences name, if it is there.
sub database {
    my ($options) = @_;
    my @files = map { -d ? glob "$_/*.cf" : $_ }
        grep { defined && -e } $options->{rules}, $options->{site}, $options->{preferences};
    local @ARGV = @files or return undef;
    my ($path) = map { /^\s*user_awl_dsn\s+dbi:SQLite:dbname=(\S+)/ ? $1 : () } <>;
    return defined $path && -e $path ? $path : undef;
}

# Settings of the program. DNS queries are sent to the DNS server of the test.
sub settings {
    my ($options) = @_;
    my %settings = (
        data => string(data_folder($options)),
        user => '""',
        sandbox => '"off"',
        'rules.language' => string(locale()),
        'rules.network' => $options->{local} ? 'false' : 'true',
        'rules.dns_server' => string($ENV{GATEPOST_TEST_DNS}),
        'rules.network_time_max' => '"2s"',
        # The machine may be busy, and the program may be built without optimisation.
        'rules.max_time' => '"60s"',
        'rules.warm_up' => 'false',
    );
    return %settings;
}

# The language of reports, which SpamAssassin takes from the environment.
sub locale {
    my ($locale) = grep { defined && length } @ENV{qw(LANGUAGE LC_ALL LC_MESSAGES LANG)};
    ($locale) = ($locale // 'C') =~ /^([^:@.+,]*)/;
    return $locale =~ /^(?:C|POSIX|)$/ ? 'en_US' : $locale;
}

sub arguments {
    my (%settings) = @_;
    return map { ('--set', "$_=$settings{$_}") } sort keys %settings;
}

# A string, and a list of strings, as TOML writes them.
sub string { my ($text) = @_; $text =~ s/(["\\])/\\$1/g; return qq("$text") }
sub list { return '[' . join(',', map { string($_) } @_) . ']' }

1;

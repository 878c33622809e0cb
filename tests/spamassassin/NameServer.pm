# A DNS server on loopback that answers from a list of records, for the rules that ask the network.
package NameServer;

use strict;
use warnings;
use IO::Socket::INET;
use Net::DNS;

# Starts the server in a process of its own; gives its address and the process.
sub start {
    my ($file) = @_;
    my %records = records($file);
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'udp') or die "no socket: $!\n";
    my $address = $socket->sockhost . ':' . $socket->sockport;
    defined(my $process = fork) or die "no process: $!\n";
    return ($address, $process) if $process;
    while (1) {
        defined(my $client = $socket->recv(my $bytes, 65_535)) or next;
        my $query = Net::DNS::Packet->new(\$bytes) or next;
        $socket->send(answer($query, \%records)->data, 0, $client);
    }
}

sub answer {
    my ($query, $records) = @_;
    my $answer = $query->reply;
    my ($question) = $query->question;
    my $of_name = $records->{ lc $question->qname } || {};
    $answer->push(answer => @{ $of_name->{ $question->qtype } || [] });
    $answer->header->rcode(%$of_name ? 'NOERROR' : 'NXDOMAIN');
    $answer->header->ra(1);
    return $answer;
}

# The records by name and type.
sub records {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!\n";
    my %records;
    while (<$in>) {
        next if /^\s*(?:#|$)/;
        my ($name, $type, $data) = split ' ', $_, 3;
        push @{ $records{ lc $name }{$type} }, Net::DNS::RR->new("$name. 60 IN $type $data");
    }
    return %records;
}

1;

// Package test starts Gatepost where the tests of ntfy's client start ntfy's server.
package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Server is a running Gatepost.
type Server struct{ command *exec.Cmd }

// StartServer starts the program that the variable GATEPOST names, and returns the port of its HTTP listener.
func StartServer(t *testing.T) (*Server, int) {
	folder := t.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	settings := fmt.Sprintf("rules.paths = []\nlisteners.http.bind = [\"127.0.0.1:%d\"]\n", port)
	for _, listener := range []string{"smtp", "lmtp", "milter", "pop3", "spamd", "call", "mqtt"} {
		settings += fmt.Sprintf("listeners.%s.bind = []\n", listener)
	}
	config := filepath.Join(folder, "gatepost.toml")
	if err := os.WriteFile(config, []byte(settings), 0600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Getenv("GATEPOST"), "serve", "--config", config)
	command.Dir = folder
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	WaitForPortUp(t, port)
	return &Server{command}, port
}

// StopServer ends the server.
func StopServer(t *testing.T, server *Server, port int) {
	server.command.Process.Kill()
	server.command.Wait()
	WaitForPortDown(t, port)
}

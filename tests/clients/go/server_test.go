// Package clients runs go-redis, unchanged, against Tarn.
package clients

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The server under test listens here, once TestMain has started it.
var address string

// TestMain starts the server on a free port with an empty folder, and kills it at the end.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "tarn-go")
	if err != nil {
		panic(err)
	}
	server, listens := start(folder)
	address = listens
	code := m.Run()
	_ = server.Process.Kill()
	_ = server.Wait()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func freePort() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// start returns a running server, and the address of its ordinary port.
func start(folder string, more ...string) (*exec.Cmd, string) {
	port := freePort()
	listens := net.JoinHostPort("127.0.0.1", port)
	options := []string{"--port", port, "--dir", folder, "--save", "", "--loglevel", "warning"}
	options = append(options, more...)
	program := binary()
	if !strings.HasPrefix(filepath.Base(program), "redis") {
		options = append([]string{"serve"}, options...)
	}
	server := exec.Command(program, options...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: listens})
	defer client.Close()
	for tries := 0; client.Ping(context.Background()).Err() != nil; tries++ {
		if tries == 300 {
			_ = server.Process.Kill()
			panic("the server does not answer")
		}
		time.Sleep(100 * time.Millisecond)
	}
	return server, listens
}

// The program to test: TARN_BINARY, or what cargo built.
func binary() string {
	if named := os.Getenv("TARN_BINARY"); named != "" {
		return named
	}
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = "../../../target"
	}
	return filepath.Join(target, "debug", "tarn")
}

package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server with a port for TLS, and an ordinary one for `admin`.
type encrypted struct {
	port         string
	certificates string
	admin        *redis.Client
}

// startEncrypted starts a server that ends with the test. It asks clients for certificates as `tls-auth-clients` says.
func startEncrypted(t *testing.T, authClients string) *encrypted {
	certificates := t.TempDir()
	if printed, err := exec.Command("sh", "../certificates.sh", certificates).CombinedOutput(); err != nil {
		t.Fatalf("certificates: %v\n%s", err, printed)
	}
	file := func(name string) string { return filepath.Join(certificates, name) }
	port := freePort()
	server, listens := start(t.TempDir(), "--tls-port", port, "--tls-auth-clients", authClients,
		"--tls-cert-file", file("server.pem"), "--tls-key-file", file("server.key"),
		"--tls-ca-cert-file", file("authority.pem"))
	admin := redis.NewClient(&redis.Options{Addr: listens})
	t.Cleanup(func() {
		_ = admin.Close()
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return &encrypted{port, certificates, admin}
}

// trusting is a configuration that trusts an authority, and shows a certificate unless its name is empty.
func (server *encrypted) trusting(t *testing.T, authority, shown string) *tls.Config {
	t.Helper()
	file := func(name string) string { return filepath.Join(server.certificates, name) }
	pem, err := os.ReadFile(file(authority + ".pem"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if shown != "" {
		certificate, err := tls.LoadX509KeyPair(file(shown+".pem"), file(shown+".key"))
		if err != nil {
			t.Fatal(err)
		}
		// It is shown also where the server asks for one of another authority.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificate, nil
		}
	}
	return config
}

// connect is a client over TLS, which ends with the test and does not try again.
func (server *encrypted) connect(t *testing.T, config *tls.Config, more func(*redis.Options)) *redis.Client {
	options := &redis.Options{Addr: net.JoinHostPort("localhost", server.port), TLSConfig: config, MaxRetries: -1}
	if more != nil {
		more(options)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (server *encrypted) addAlice(t *testing.T, ctx context.Context) {
	t.Helper()
	rules := []interface{}{"reset", "on", ">wonderland", "~app:*", "&news:*", "+@all", "-@dangerous"}
	if err := server.admin.Do(ctx, append([]interface{}{"ACL", "SETUSER", "alice"}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
}

func alice(protocol int) func(*redis.Options) {
	return func(options *redis.Options) {
		options.Username, options.Password, options.Protocol = "alice", "wonderland", protocol
	}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func refuses(t *testing.T, what, wanted string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), wanted) {
		t.Errorf("%s: %v, wanted an error with %q", what, err, wanted)
	}
}

func TestTLSKeepsClientsFromServersThatTheyCannotTrust(t *testing.T) {
	server, ctx := startEncrypted(t, "no"), limited(t)
	trusting := server.trusting(t, "authority", "")
	same(t, "PING", "PONG")(server.connect(t, trusting, nil).Ping(ctx).Result())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := trusting.Clone()
		config.MinVersion, config.MaxVersion = version, version
		same(t, "ECHO", "hello")(server.connect(t, config, nil).Echo(ctx, "hello").Result())
	}
	foreign := server.connect(t, server.trusting(t, "foreign", ""), nil)
	var authority *tls.CertificateVerificationError
	if err := foreign.Ping(ctx).Err(); !errors.As(err, &authority) {
		t.Errorf("an authority that the client does not know: %v", err)
	}
	elsewhere := trusting.Clone()
	elsewhere.ServerName = "elsewhere.example"
	var name x509.HostnameError
	if err := server.connect(t, elsewhere, nil).Ping(ctx).Err(); !errors.As(err, &name) {
		t.Errorf("another name: %v", err)
	}
}

func TestTLSAsksForCertificates(t *testing.T) {
	server, ctx := startEncrypted(t, "yes"), limited(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ask := func(shown string) error {
			config := server.trusting(t, "authority", shown)
			config.MinVersion, config.MaxVersion = version, version
			return server.connect(t, config, nil).Ping(ctx).Err()
		}
		if err := ask("client"); err != nil {
			t.Errorf("a certificate of the authority: %v", err)
		}
		for _, shown := range []string{"", "stranger"} {
			if ask(shown) == nil {
				t.Errorf("the certificate %q is accepted", shown)
			}
		}
		if err := ask("client"); err != nil {
			t.Errorf("a certificate of the authority, once more: %v", err)
		}
	}
}

func TestTLSServesUsersWithRules(t *testing.T) {
	server, ctx := startEncrypted(t, "yes"), limited(t)
	shown := server.trusting(t, "authority", "client")
	for _, protocol := range []int{2, 3} {
		server.addAlice(t, ctx)
		server.admin.FlushAll(ctx)
		server.admin.Do(ctx, "ACL", "LOG", "RESET")
		client := server.connect(t, shown, alice(protocol))
		same[interface{}](t, "WHOAMI", "alice")(client.Do(ctx, "ACL", "WHOAMI").Result())
		same(t, "SET", "OK")(client.Set(ctx, "app:k", "v", 0).Result())
		refuses(t, "a command", "NOPERM", client.FlushAll(ctx).Err())
		refuses(t, "a key", "NOPERM", client.Get(ctx, "other:k").Err())
		refuses(t, "a channel", "NOPERM", client.Publish(ctx, "secret", "m").Err())
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "app:k", "w", 0)
			pipe.Get(ctx, "other:k")
			return nil
		})
		refuses(t, "a transaction", "EXECABORT", err)
		same(t, "GET", "v")(client.Get(ctx, "app:k").Result())
		guessing := server.connect(t, shown, func(options *redis.Options) {
			options.Username, options.Password, options.Protocol = "alice", "guess", protocol
		})
		refuses(t, "a wrong password", "WRONGPASS", guessing.Ping(ctx).Err())

		entries, err := server.admin.ACLLog(ctx, 10).Result()
		if err != nil {
			t.Fatal(err)
		}
		seen := []string{}
		for _, entry := range entries {
			seen = append(seen, strings.Join([]string{entry.Reason, entry.Context, entry.Username}, " "))
		}
		wanted := []string{"key multi alice", "channel toplevel alice", "key toplevel alice", "command toplevel alice"}
		if len(seen) < 5 || seen[0] != "auth toplevel alice" || !reflect.DeepEqual(seen[len(seen)-4:], wanted) {
			t.Errorf("resp%d: ACL LOG has %q", protocol, seen)
		}
	}
}

func TestTLSCarriesMessagesAndMuchAtOnce(t *testing.T) {
	server, ctx := startEncrypted(t, "no"), limited(t)
	server.addAlice(t, ctx)
	for _, protocol := range []int{2, 3} {
		client := server.connect(t, server.trusting(t, "authority", ""), alice(protocol))
		large := strings.Repeat("x", 10<<20)
		same(t, "SET", "OK")(client.Set(ctx, "app:large", large, 0).Result())
		if got := client.Get(ctx, "app:large").Val(); got != large {
			t.Errorf("%d bytes came back", len(got))
		}
		listener := client.Subscribe(ctx, "news:a")
		defer listener.Close()
		if _, err := listener.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		same(t, "PUBLISH", int64(1))(client.Publish(ctx, "news:a", "hello").Result())
		if got, err := listener.ReceiveMessage(ctx); err != nil || got.Payload != "hello" {
			t.Errorf("a message: %v %v", got, err)
		}
		_ = listener.Close()
		client.Del(ctx, "app:n")
		var all sync.WaitGroup
		for worker := 0; worker < 50; worker++ {
			all.Add(1)
			go func() {
				defer all.Done()
				_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					for number := 0; number < 100; number++ {
						pipe.Incr(ctx, "app:n")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		all.Wait()
		same(t, "GET", "5000")(client.Get(ctx, "app:n").Result())
	}
}

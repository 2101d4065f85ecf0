package natsembed

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestRestartKeepsEverything(t *testing.T) {
	opts := Options{Dir: filepath.Join(t.TempDir(), "new", "folder")}
	s := start(t, opts)
	if at := s.nats.Addr(); at != nil {
		t.Errorf("the server listens for clients on %v", at)
	}
	kv, err := jetStream(t, s).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	revision, err := kv.PutString(t.Context(), "key", "value")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close() // does nothing

	again := start(t, opts)
	if again.Name() != s.Name() || s.Name() == "" {
		t.Errorf("the server's name was %q, and after a restart it is %q", s.Name(), again.Name())
	}
	if kv, err = jetStream(t, again).KeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	got, err := kv.Get(t.Context(), "key")
	if err != nil || string(got.Value()) != "value" || got.Revision() != revision {
		t.Errorf("after a restart, got %v, error %v", got, err)
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	used := t.TempDir()
	start(t, Options{Dir: used, Name: "a"})
	alone := t.TempDir()
	start(t, Options{Dir: alone, Name: "a"}).Close()
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	const a, b = "127.0.0.1:1001", "127.0.0.1:1002"
	for want, opts := range map[string]Options{
		"dir: is missing":                                   {},
		"dir: mkdir":                                        {Dir: filepath.Join(broken, identityFile, "x")},
		"is in use by another server":                       {Dir: used},
		`belongs to the server "a", not "b"`:                {Dir: alone, Name: "b"},
		"belongs to a single server":                        {Dir: alone, Route: a, Cluster: []string{b}},
		"restore the file":                                  {Dir: broken},
		`name: "a b"`:                                       {Dir: "x", Name: "a b"},
		"max store: must not be negative":                   {Dir: "x", MaxStore: -1},
		"max memory: must not be negative":                  {Dir: "x", MaxMemory: -1},
		"route: is missing":                                 {Dir: "x", Cluster: []string{b}},
		"cluster: is missing":                               {Dir: "x", Route: a},
		"route and cluster: each address must be HOST:PORT": {Dir: "x", Route: "127.0.0.1", Cluster: []string{b}},
		"each address must be HOST:PORT":                    {Dir: "x", Route: a, Cluster: []string{"x:0"}},
		"is listed twice":                                   {Dir: "x", Route: a, Cluster: []string{b, b}},
		"secret: is missing":                                {Dir: "x", Route: "0.0.0.0:1001", Cluster: []string{b}},
		"contains only this process":                        {Dir: "x", Route: a, Cluster: []string{"localhost:1001"}},
		"none of its addresses is this process":             {Dir: "x", Route: ":1001", Cluster: []string{b, "127.0.0.1:1003"}, Secret: "s"},
		"address already in use; choose an unused address":  {Dir: t.TempDir(), Route: taken.Addr().String(), Cluster: []string{b}},
	} {
		s, err := Start(opts)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "natsembed: ") {
			t.Errorf("Start(%+v) returned error %v, want one that contains %q", opts, err, want)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a folder was created although the options are invalid")
	}
}

// The members of a cluster include this server, whether or not the list of peers does.
func TestMembersIncludeThisServer(t *testing.T) {
	for _, test := range []struct {
		route string
		peers string
		want  string
	}{
		{"127.0.0.1:1", "127.0.0.1:1 127.0.0.1:2 127.0.0.1:3", "127.0.0.1:1 127.0.0.1:2 127.0.0.1:3"},
		{"127.0.0.1:1", "127.0.0.1:2 127.0.0.1:3", "127.0.0.1:2 127.0.0.1:3 127.0.0.1:1"},
		{"127.0.0.1:1", "localhost:1 localhost:2", "localhost:1 localhost:2"},
		{"0.0.0.0:1", "127.0.0.1:1 192.0.2.1:1", "127.0.0.1:1 192.0.2.1:1"},
		{":1", "localhost:1 192.0.2.1:1", "localhost:1 192.0.2.1:1"},
	} {
		opts := Options{Route: test.route, Cluster: strings.Fields(test.peers)}
		got, err := opts.members()
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("members of %s with the peers %s are %v, %v; want %s", test.route, test.peers, got, err, test.want)
		}
	}
}

// Writing to a full store is an error, and the store keeps what it has.
func TestFullStoreIsAnError(t *testing.T) {
	js := jetStream(t, start(t, Options{Dir: t.TempDir(), MaxStore: 64 << 10}))
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for ; written < 1000 && err == nil; written++ {
		_, err = kv.Put(t.Context(), "key-"+string(rune('a'+written)), make([]byte, 4<<10))
	}
	if err == nil {
		t.Fatal("4 MB were written to a store of 64 KiB")
	}
	if got, err := kv.Get(t.Context(), "key-a"); err != nil || len(got.Value()) != 4<<10 {
		t.Errorf("the first value is %v, %v", got, err)
	}
	t.Logf("%d writes of 4 KiB succeeded, then: %v", written-1, err)
}

// Warnings and errors keep their levels, and nothing else is logged at the default level.
func TestLogLevels(t *testing.T) {
	lines := &lines{}
	s := start(t, Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(lines, nil))})
	s.nats.Warnf("look %d", 1)
	s.nats.Errorf("alas %d", 2)
	s.Close()
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != 2 || !strings.Contains(got[0], `level=WARN msg="nats: look 1"`) || !strings.Contains(got[1], `level=ERROR msg="nats: alas 2"`) {
		t.Errorf("the log is:\n%s", lines.String())
	}
}

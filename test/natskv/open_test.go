package natskv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/opentest"
)

func TestOpen(t *testing.T) {
	open := opentest.Opener(natskv.Open)
	t.Run("server", func(t *testing.T) {
		opentest.Decides(t, open.Open(t, natstest.Start(t)+"?bucket=limits&prefix=mine&storage=memory&timeout=5s"))
	})
	t.Run("unreachable", func(t *testing.T) { open.Unreachable(t, "nats://u:hunter2@ADDR") })
	t.Run("silent", func(t *testing.T) { open.Silent(t, "nats://ADDR") })
	t.Run("later", func(t *testing.T) {
		node := natstest.StartNode(t)
		node.Kill()
		c := open.Open(t, node.URL())
		opentest.Down(t, c, "refused")
		node.Restart()
		opentest.Decides(t, c)
	})
}

// TestOpenRefused: wrong credentials, accounts without JetStream and buckets that cannot keep counts are errors of Open; a server
// without JetStream, which may be starting, is not.
func TestOpenRefused(t *testing.T) {
	open := opentest.Opener(natskv.Open)
	rich, poor := server.NewAccount("rich"), server.NewAccount("poor")
	s, host := startServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Accounts: []*server.Account{rich, poor}, Users: []*server.User{
		{Username: "app", Password: "secret", Account: rich}, {Username: "poor", Password: "secret", Account: poor},
		{Username: "mute", Password: "secret", Account: rich, Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.>"}}}},
		{Username: "reader", Password: "secret", Account: rich, Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$KV.>"}}}},
	}})
	if err := kit.Must(s.LookupAccount("rich"))(t).EnableJetStream(nil, nil); err != nil {
		t.Fatal(err)
	}
	opentest.Decides(t, open.Open(t, "nats://app:secret@"+host+"?timeout=5s"))
	open.Refuses(t, "nats://app:hunter2@"+host, "uthorization")
	open.Refuses(t, "nats://hunter2@"+host, "uthorization")
	open.Refuses(t, "nats://"+host, "uthorization")
	open.Refuses(t, "nats://mute:secret@"+host, "ermissions violation")
	open.Refuses(t, "nats://reader:secret@"+host, "ermissions violation")
	open.Refuses(t, "nats://poor:secret@"+host, "not enabled for account")

	at := natstest.Start(t)
	js := kit.Must(jetstream.New(natstest.Connect(t, at)))(t)
	kit.Must(js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_old", Subjects: []string{"$KV.old.>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, MaxAge: time.Hour,
	}))(t)
	open.Refuses(t, at+"?bucket=old", "max_age")

	_, none := startServer(t, &server.Options{})
	opentest.Down(t, open.Open(t, "nats://"+none), "JetStream")
}

// startServer starts a server that ends with the test, and returns it with its address.
func startServer(t *testing.T, opts *server.Options) (s *server.Server, host string) {
	t.Helper()
	opts.Host, opts.Port, opts.NoLog, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	s = kit.Must(server.NewServer(opts))(t)
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s, strings.TrimPrefix(s.ClientURL(), "nats://")
}

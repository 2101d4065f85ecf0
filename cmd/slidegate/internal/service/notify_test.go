package service_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A key that reaches a threshold is an event on the admin listener, for the webhook and in the metrics; the log has a hash of the key.
func TestNotifications(t *testing.T) {
	bodies := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.Header.Get("webhook-id") + " " + string(body)
	}))
	defer hook.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, webhookSecret+"\n")
	s := start(t, "policies: {api: {limits: [10/1h notify=80%]}}\n", func(o *service.Options) { o.Webhook, o.WebhookSecretFile = hook.URL, secret })

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.Address("admin")+"/v1/events", nil)
	testkit.NoError(t, err)
	stream, err := http.DefaultClient.Do(r)
	testkit.NoError(t, err)
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Scan() // the comment at the beginning

	if page := s.send(t, "admin", "GET", "/metrics", "").body; !strings.Contains(page, `slidegate_policy_near_limit_total{percent="80",policy="api"} 0`) {
		t.Errorf("no count of the threshold in\n%s", page)
	}
	for range 9 {
		s.allow(t, "api", "ann")
	}
	sent := <-bodies
	id, body, _ := strings.Cut(sent, " ")
	if !strings.Contains(body, `"policy":"api","key":"ann","limit":"10/1h","percent":80,"used":8,"of":10,`) || !strings.Contains(body, `"id":"`+id+`"`) {
		t.Errorf("the webhook got %s", sent)
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if got := strings.TrimPrefix(lines.Text(), "data: "); got != body {
		t.Errorf("the stream has %s, want %s", got, body)
	}
	testkit.Eventually(t, "the event to be counted", func() bool {
		page := s.send(t, "admin", "GET", "/metrics", "").body
		return strings.Contains(page, `slidegate_policy_near_limit_total{percent="80",policy="api"} 1`) && strings.Contains(page, "slidegate_events_delivered_total 1")
	})
	var seen struct{ Instances []struct{ Name string } }
	testkit.NoError(t, json.Unmarshal([]byte(s.send(t, "admin", "GET", "/v1/seen", "").body), &seen))
	if name := fmt.Sprintf(`"instance":"%s"`, seen.Instances[0].Name); !strings.Contains(body, name) {
		t.Errorf("the event is %s, want %s, as /v1/seen has it", body, name)
	}
	leave()
	s.Stop(t)
	if log := s.Log.String(); !strings.Contains(log, "near a limit") || !strings.Contains(log, "key_hash=") || strings.Contains(log, "ann") {
		t.Errorf("unexpected log:\n%s", log)
	}
}

// A new secret in the file signs what is sent after a reload; an invalid one changes nothing.
func TestReloadWebhookSecret(t *testing.T) {
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	signers := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		by := "neither"
		for _, secret := range []string{webhookSecret, other} {
			key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			sum := hmac.New(sha256.New, key)
			fmt.Fprintf(sum, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
			if r.Header.Get("webhook-signature") == "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)) {
				by = secret
			}
		}
		signers <- by
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "secret")
	write(t, file, webhookSecret)
	s := start(t, "policies: {api: {limits: [1/1h notify=100%]}}\n", func(o *service.Options) { o.Webhook, o.WebhookSecretFile = hook.URL, file })
	for i, step := range []struct{ text, want string }{
		{webhookSecret, webhookSecret}, {other, other}, {"whsec_hunter2", other}, {webhookSecret + "\n", webhookSecret},
	} {
		write(t, file, step.text)
		if err := s.Reload(); (err != nil) != (step.text == "whsec_hunter2") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("reload %d: got %v", i, err)
		}
		s.allow(t, "api", fmt.Sprint("client ", i))
		if got := <-signers; got != step.want {
			t.Errorf("after reload %d: signed by %s, want %s", i, got, step.want)
		}
	}
	if log := s.Log.String(); !strings.Contains(log, "secret of the webhook reloaded") || !strings.Contains(log, "the old one stays in use") || strings.Contains(log, "hunter2") {
		t.Errorf("unexpected log:\n%s", log)
	}
}

// Options of the webhook that cannot work are errors that name the option, and never contain the secret or the URL.
func TestInvalidWebhook(t *testing.T) {
	folder := t.TempDir()
	good, bad := filepath.Join(folder, "good"), filepath.Join(folder, "bad")
	write(t, good, webhookSecret)
	write(t, bad, "hunter2")
	parsed, err := config.Parse("f.yaml", []byte(roomy))
	testkit.NoError(t, err)
	for _, c := range []struct{ url, file, want string }{
		{"https://example.com", "", "Webhook: needs a secret, so that its receiver can tell the events from others'; set --webhook-secret-file"},
		{"", good, "WebhookSecretFile: nothing is signed"},
		{"example.com/hunter2", good, "Webhook: must be a URL"},
		{"example.com/hunter2", "", "Webhook: must be a URL"},
		{"https://example.com", bad, "WebhookSecretFile: must be whsec_"},
		{"https://example.com", filepath.Join(folder, "none"), "WebhookSecretFile: "},
	} {
		_, err := service.New(t.Context(), service.Options{File: parsed, HTTP: "127.0.0.1:0", Webhook: c.url, WebhookSecretFile: c.file})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: got %v, want %s", c, err, c.want)
		}
	}
}

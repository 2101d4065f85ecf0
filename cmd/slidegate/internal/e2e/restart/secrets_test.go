package restart_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// writePair writes a new certificate for this machine and its key, and returns a client that trusts only this certificate.
func writePair(t *testing.T, cert, key string) *http.Client {
	t.Helper()
	c := testkit.NewCertificate(t, "server", nil, "127.0.0.1")
	c.Write(t, cert, key)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.Pool()}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testkit.Patience}
}

// status requests a unit with a token, and returns the status, or 0 if there is no response, and whether the connection was used
// before.
func status(t *testing.T, client *http.Client, url, token string) (got int, reused bool) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", url+"/v1/allow", strings.NewReader(`{"key":"me"}`))
	testkit.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(r)
	if err != nil {
		return 0, reused
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, reused
}

// TestNewSecretsWithoutRestart checks that a running process uses a new token and a new certificate, and no longer accepts the old
// ones, the token not even on a connection that was open before.
func TestNewSecretsWithoutRestart(t *testing.T) {
	const old, young = "old-token-of-24-characters", "new-token-of-24-characters"
	dir := t.TempDir()
	cert, key, tokens := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "tokens")
	first := writePair(t, cert, key)
	testkit.NoError(t, os.WriteFile(tokens, []byte(old+"\n"), 0o600))
	p := run(t, exec.Command(slidegate, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--limit", ampleLimit,
		"--tls-cert", cert, "--tls-key", key, "--tokens-file", tokens))
	p.AwaitOutput(t, "\n  http ")
	url := regexp.MustCompile(`https://127\.0\.0\.1:\d+`).FindString(p.Output.String())
	if got, _ := status(t, first, url, old); got != http.StatusOK {
		t.Fatalf("at first: %d, want 200: %s", got, p.Output.String())
	}

	testkit.NoError(t, os.WriteFile(tokens, []byte(young+"\n"), 0o600))
	testkit.Eventually(t, "the new token is valid", func() bool {
		got, _ := status(t, first, url, young)
		return got == http.StatusOK
	})
	if got, reused := status(t, first, url, old); got != http.StatusUnauthorized || !reused {
		t.Errorf("the old token: %d, want 401 on a connection that was open before: %t", got, reused)
	}

	second := writePair(t, cert, key)
	testkit.Eventually(t, "the new certificate is in use", func() bool {
		got, _ := status(t, second, url, young)
		return got == http.StatusOK
	})
	first.CloseIdleConnections()
	if got, _ := status(t, first, url, young); got != 0 {
		t.Errorf("a client that trusts only the old certificate got %d, want no connection", got)
	}
	p.terminate(t)
}

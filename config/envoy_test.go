package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestEnvoy(t *testing.T) {
	t.Setenv("SLIDEGATE_TEST_TOKEN", "hunter2")
	file, err := Parse("/etc/slidegate/slidegate.yaml", []byte(`
envoy:
  files: [rules, /srv/rules.yaml]
  xds:
    address: control:18000
    metadata: {zone: a}
    headers: {authorization: "Bearer ${SLIDEGATE_TEST_TOKEN}"}
    node: me
    ca: ca.pem
    cert: cert.pem
    key: key.pem
    server_name: control.example
policies: {api: {limits: [1/s]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Envoy{Files: []string{"/etc/slidegate/rules", "/srv/rules.yaml"}, XDS: XDS{
		Address: "control:18000", Metadata: map[string]string{"zone": "a"}, Headers: map[string]string{"authorization": "Bearer hunter2"},
		Node: "me", TLS: true, CA: "/etc/slidegate/ca.pem", Cert: "/etc/slidegate/cert.pem", Key: "/etc/slidegate/key.pem", ServerName: "control.example",
	}}
	if !reflect.DeepEqual(file.Envoy, want) {
		t.Errorf("got %+v, want %+v", file.Envoy, want)
	}
	text := string(Format(file))
	if !strings.Contains(text, "\nenvoy:\n  files:\n    - \"/etc/slidegate/rules\"\n") || !strings.Contains(text, `"authorization": "***"`) || strings.Contains(text, "hunter2") {
		t.Errorf("got\n%s", text)
	}
	want.XDS.Headers["authorization"] = "***"
	if again, err := Parse("/other.yaml", []byte(text)); err != nil || !reflect.DeepEqual(again.Envoy, want) {
		t.Errorf("got %+v, %v from what Format wrote, want %+v", again, err, want)
	}
}

func TestEnvoyIsWrong(t *testing.T) {
	_, err := Parse("f.yaml", []byte(`envoy:
  files: rules
  xsd: {}
  xds:
    adress: h:1
    headers: {a: "${SLIDEGATE_TEST_UNSET}", b: [1]}
    metadata: zone
policies: {api: {limits: [1/s]}}
`))
	const want = `f.yaml:2:10: files: must be a list of paths of files and folders, not "rules"
f.yaml:3:3: "xsd" is not a field of envoy; did you mean "xds"? (want one of files, xds)
f.yaml:5:5: "adress" is not a field of xds; did you mean "address"? (want one of address, node, metadata, headers, tls, ca, cert, key, server_name)
f.yaml:6:18: a: the environment variable "SLIDEGATE_TEST_UNSET" is not set; set it
f.yaml:6:48: b: must be a string, not a list
f.yaml:7:15: metadata: must be a mapping of names to texts, not "zone"`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// write writes files into a new folder, which it returns.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

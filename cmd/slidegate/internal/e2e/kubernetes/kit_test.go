// Package kubernetes_test checks the manifests in deploy/kubernetes, and starts the program as their pods do. make long T=helm checks that
// they are what helm renders from the chart, and their schemas.
package kubernetes_test

import (
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/manifest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

var (
	root   = filepath.Join("..", "..", "..", "..", "..")
	deploy = filepath.Join(root, "deploy")
	chart  = filepath.Join(deploy, "helm", "slidegate")
)

// slidegate is the real binary, built once.
var slidegate string

func TestMain(m *testing.M) {
	testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &slidegate)
}

// shapes are the files with a workload.
var shapes = []string{"redis", "postgres", "nats"}

func read(t *testing.T, name string) *manifest.File {
	t.Helper()
	return manifest.Read(t, filepath.Join(deploy, "kubernetes", name+".yaml"))
}

// eachShape runs a test for each file with a workload.
func eachShape(t *testing.T, test func(t *testing.T, f *manifest.File, w *manifest.Object)) {
	for _, name := range shapes {
		t.Run(name, func(t *testing.T) {
			f := read(t, name)
			test(t, f, f.Workload(t))
		})
	}
}

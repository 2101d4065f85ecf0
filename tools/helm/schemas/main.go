// Command schemas writes the JSON schemas of the kinds that the chart renders, from the OpenAPI description of Kubernetes and the custom
// resources of the Prometheus operator: only what is needed to validate them strictly, without descriptions.
//
//	cd tools/helm && GOWORK=off go run ./schemas
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The modules that contain the descriptions.
const (
	kubernetes = "k8s.io/kubernetes@v1.34.4"
	operator   = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// kinds are definitions of Kubernetes, by the names under which kubeconform looks for them.
var kinds = map[string]string{
	"configmap-v1":                  "io.k8s.api.core.v1.ConfigMap",
	"service-v1":                    "io.k8s.api.core.v1.Service",
	"deployment-apps-v1":            "io.k8s.api.apps.v1.Deployment",
	"statefulset-apps-v1":           "io.k8s.api.apps.v1.StatefulSet",
	"poddisruptionbudget-policy-v1": "io.k8s.api.policy.v1.PodDisruptionBudget",
	"networkpolicy-networking-v1":   "io.k8s.api.networking.v1.NetworkPolicy",
}

// custom are files of custom resources.
var custom = map[string]string{
	"servicemonitor-monitoring-v1": "monitoring.coreos.com_servicemonitors.yaml",
	"prometheusrule-monitoring-v1": "monitoring.coreos.com_prometheusrules.yaml",
}

const reference = "#/definitions/"

func main() {
	var swagger struct {
		Definitions map[string]any `json:"definitions"`
	}
	text, err := os.ReadFile(filepath.Join(download(kubernetes), "api", "openapi-spec", "swagger.json"))
	check(err)
	check(json.Unmarshal(text, &swagger))
	for name, definition := range kinds {
		needed := map[string]any{}
		collect(definition, swagger.Definitions, needed)
		write(name, map[string]any{"allOf": []any{map[string]any{"$ref": reference + definition}}, "definitions": needed})
	}
	folder := filepath.Join(download(operator), "example", "prometheus-operator-crd")
	for name, file := range custom {
		var resource struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema any } `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		text, err := os.ReadFile(filepath.Join(folder, file))
		check(err)
		check(yaml.Unmarshal(text, &resource))
		write(name, strict(resource.Spec.Versions[0].Schema.OpenAPIV3Schema, nil))
	}
}

// download returns the folder of a module.
func download(module string) string {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	check(err)
	var got struct{ Dir string }
	check(json.Unmarshal(out, &got))
	return got.Dir
}

// collect adds a definition, and those that it refers to, to needed.
func collect(name string, all, needed map[string]any) {
	if _, done := needed[name]; done {
		return
	}
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		needed[name] = map[string]any{"type": []string{"integer", "string"}}
		return
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		needed[name] = map[string]any{"type": []string{"number", "string"}}
		return
	case "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry": // no manifest has it
		needed[name] = map[string]any{"not": map[string]any{}}
		return
	}
	needed[name] = nil // before its fields, which may refer to it
	needed[name] = strict(all[name], func(other string) { collect(other, all, needed) })
}

// strict returns a schema without descriptions and extensions, whose objects have no fields but those that it names. It calls refers for
// each definition that the schema refers to.
func strict(schema any, refers func(name string)) any {
	switch s := schema.(type) {
	case []any:
		for i := range s {
			s[i] = strict(s[i], refers)
		}
	case map[string]any:
		if name, isText := s["$ref"].(string); isText {
			refers(strings.TrimPrefix(name, reference))
		}
		for field, value := range s {
			_, isSchema := value.(map[string]any) // of a field that has such a name
			if strings.HasPrefix(field, "x-kubernetes-") || !isSchema && slices.Contains([]string{"description", "format", "default"}, field) {
				delete(s, field)
				continue
			}
			s[field] = strict(value, refers)
		}
		if properties, ok := s["properties"].(map[string]any); ok && s["additionalProperties"] == nil && len(properties) > 0 {
			s["additionalProperties"] = false
		}
		if _, ok := s["status"]; ok && s["apiVersion"] != nil {
			delete(s, "status") // no manifest has it
		}
	}
	return schema
}

func write(name string, schema any) {
	text, err := json.Marshal(schema)
	check(err)
	check(os.WriteFile(filepath.Join("schemas", name+".json"), append(text, '\n'), 0o644))
	fmt.Println(name, len(text), "bytes")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Prints the health that Argo CD computes for each object on standard input, one line each: HEALTH KIND/NAME: MESSAGE.
// The argument is a file with the ConfigMap argocd-cm, from which the key resource.customizations is read as Argo CD does.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	appv1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	decode "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "argocd-health:", err)
		os.Exit(2)
	}
}

func overrides(path string) lua.ResourceHealthOverrides {
	text, err := os.ReadFile(path)
	die(err)
	configMap := corev1.ConfigMap{}
	die(yaml.UnmarshalStrict(text, &configMap))
	found := map[string]appv1.ResourceOverride{}
	die(yaml.Unmarshal([]byte(configMap.Data["resource.customizations"]), &found))
	return found
}

func main() {
	scripts, decoder := overrides(os.Args[1]), decode.NewYAMLOrJSONDecoder(os.Stdin, 65536)
	for {
		raw, object := runtime.RawExtension{}, &unstructured.Unstructured{}
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		die(err)
		die(object.UnmarshalJSON(raw.Raw))
		found, err := health.GetResourceHealth(object, scripts)
		die(err)
		if found == nil {
			found = &health.HealthStatus{Status: "None"}
		}
		fmt.Printf("%s %s/%s: %s\n", found.Status, object.GetKind(), object.GetName(), found.Message)
	}
}

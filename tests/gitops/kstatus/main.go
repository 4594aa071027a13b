// Prints the status that kstatus computes for each object on standard input, one line each: STATUS KIND/NAME: MESSAGE.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	decoder := yaml.NewYAMLOrJSONDecoder(os.Stdin, 65536)
	for {
		raw, object := runtime.RawExtension{}, &unstructured.Unstructured{}
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = object.UnmarshalJSON(raw.Raw) // keeps whole numbers whole: kstatus reads the generation as one
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "kstatus:", err)
			os.Exit(2)
		}
		result, err := status.Compute(object)
		if err != nil {
			result = &status.Result{Status: status.UnknownStatus, Message: err.Error()}
		}
		fmt.Printf("%s %s/%s: %s\n", result.Status, object.GetKind(), object.GetName(), result.Message)
	}
}

// Command gitops says what GitOps tools read from objects: the status by kstatus (Flux, Helm), and the health by
// a Lua script for each kind (Argo CD). It reads {"scripts": {kind: script}, "objects": [...]}.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type verdict struct {
	Kstatus string `json:"kstatus"`
	Health  string `json:"health"`
	Message string `json:"message"`
}

func main() {
	var asked struct {
		Scripts map[string]string `json:"scripts"`
		Objects []json.RawMessage `json:"objects"`
	}
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	verdicts := []verdict{}
	for _, raw := range asked.Objects {
		object := &unstructured.Unstructured{}
		must(object.UnmarshalJSON(raw))
		result, err := status.Compute(object)
		must(err)
		health, message := healthOf(asked.Scripts[object.GetKind()], object.Object)
		verdicts = append(verdicts, verdict{string(result.Status), health, message})
	}
	must(json.NewEncoder(os.Stdout).Encode(verdicts))
}

// healthOf runs a script as Argo CD does: the global is obj, the result a table.
func healthOf(script string, object map[string]any) (string, string) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
		state.Push(state.NewFunction(library))
		state.Call(0, 0)
	}
	state.SetGlobal("obj", valueOf(state, object))
	must(state.DoString(script))
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		must(fmt.Errorf("the script returns no table"))
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func valueOf(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, each := range value {
			table.RawSetString(key, valueOf(state, each))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, each := range value {
			table.Append(valueOf(state, each))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

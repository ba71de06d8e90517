"""BFCL's own questions and judges, from a wheel of bfcl-eval that the user has: nothing of it is installed or copied.

SPDX-License-Identifier: Apache-2.0
"""
import importlib
import json
import sys
import types
import zipfile

CALLS = ('simple_python', 'multiple', 'parallel', 'parallel_multiple')  # judged by their calls
WITHOUT_CALLS = ('irrelevance',)
TURNS = ('multi_turn_base',)  # judged by what their calls did
CATEGORIES = CALLS + WITHOUT_CALLS + TURNS
KEPT = ('description', 'enum', 'required')  # of a schema, beside types and parts
NAME = 'outrider'  # of the model, for BFCL's judges


def named(function):
    """A name as OpenAI's tools allow it."""
    return function.replace('.', '_')


class Bfcl:
    """The data and the judges in a wheel."""

    def __init__(self, wheel):
        self.wheel = zipfile.ZipFile(wheel)
        sys.path.insert(0, str(wheel))
        # BFCL's table of models imports the packages of all providers; its judges read one field of it.
        table = types.ModuleType('bfcl_eval.constants.model_config')
        table.MODEL_CONFIG_MAPPING = {NAME: types.SimpleNamespace(underscore_to_dot=True)}
        sys.modules[table.__name__] = table
        self.types = importlib.import_module('bfcl_eval.constants.type_mappings').GORILLA_TO_OPENAPI
        self.languages = importlib.import_module('bfcl_eval.constants.enums').Language
        self.calls = importlib.import_module('bfcl_eval.eval_checker.ast_eval.ast_checker')
        self.turns = importlib.import_module('bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker')

    def read(self, name):
        return [json.loads(line) for line in self.wheel.read(f'bfcl_eval/data/{name}.json').decode().splitlines() if line]

    def tasks(self, category, count):
        """The first tasks of a category, each with its answer."""
        asked = self.read(f'BFCL_v4_{category}')[:count]
        if category in WITHOUT_CALLS:
            return [task | {'category': category} for task in asked]
        answers = {answer['id']: answer['ground_truth'] for answer in self.read(f'possible_answer/BFCL_v4_{category}')}
        return [task | {'category': category, 'answer': answers[task['id']]} for task in asked]

    def functions(self, task):
        """Their descriptions: the task's own, or those of the classes that it is about."""
        if task['category'] not in TURNS:
            return task['function']
        files = importlib.import_module('bfcl_eval.constants.executable_backend_config').MULTI_TURN_FUNC_DOC_FILE_MAPPING
        left_out = task.get('excluded_function', ())
        return [function for name in task['involved_classes'] for function in self.read(f'multi_turn_func_doc/{files[name].removesuffix(".json")}')
                if function['name'] not in left_out]

    def tools(self, task):
        return [{'type': 'function', 'function': {'name': named(function['name']), 'description': function['description'], 'strict': True,
                                                  'parameters': self.schema(function['parameters'])}} for function in self.functions(task)]

    def schema(self, part):
        """BFCL's schema in JSON schema's words."""
        said = {'type': self.types[part['type']]} | {key: part[key] for key in KEPT if key in part}
        if 'properties' in part:
            said['properties'] = {key: self.schema(value) for key, value in part['properties'].items()}
        if 'items' in part:
            said['items'] = self.schema(part['items'])
        return said

    def right(self, task, calls):
        """Whether BFCL takes these calls, [(name, arguments)], for right."""
        if task['category'] in WITHOUT_CALLS:
            return not calls
        return self.calls.ast_checker(task['function'], [dict([call]) for call in calls], task['answer'], self.languages.PYTHON,
                                      task['category'], NAME)['valid']

    def act(self, task, calls, way):
        """The results of the calls, in the scene that this way of answering has made of the task."""
        results, _ = self.turns.execute_multi_turn_func_call(list(map(written, calls)), task['initial_config'], task['involved_classes'],
                                                             f'{NAME}_{way}', task['id'])
        return results

    def right_turns(self, task, turns, way):
        """turns: of each turn its steps, of each step its calls."""
        steps = [[list(map(written, calls)) for calls in turn] for turn in turns]
        return self.turns.multi_turn_checker(steps, task['answer'], task, task['category'], f'{NAME}_{way}')['valid']


def written(call):
    name, arguments = call
    return f'{name}({", ".join(f"{key}={value!r}" for key, value in arguments.items())})'

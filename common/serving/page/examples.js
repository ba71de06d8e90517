// SPDX-License-Identifier: Apache-2.0
// Prompts to begin with, by the model's name. The demo pair knows scenes of a robot and nothing else.

const EXAMPLES = [
  {model: /demo|robot/i, prompts: [
    {title: 'Pick something up', text: 'Pick up the red cup.'},
    {title: 'Go somewhere', text: 'Scene:\n- red chair 30 degrees left at 2.4 m\n- silver bottle straight ahead at 1.2 m\n' +
      '- brown table 15 degrees right at 3.1 m\nPlease go to the silver bottle.'},
    {title: 'Report what is seen', text: 'Objects: yellow lamp 5 degrees right at 0.5 m; brown suitcase straight ahead at ' +
      '4.4 m; door straight ahead at 3.2 m; silver lamp 45 degrees left at 2.4 m.\n' +
      'Instruction: report where the yellow lamp and the door are.'}]},
  {model: /code/i, prompts: [
    {title: 'Write a function', text: 'Write a Python function that merges two sorted lists, with a test.'},
    {title: 'Explain code', text: 'What does this print, and why?\n```python\nprint([i for i in range(10) if i & 1])\n```'},
    {title: 'Find a mistake', text: 'Why may this loop never end?\n```c\nfor (unsigned i = 9; i >= 0; --i) use(i);\n```'}]},
  {model: /(?:)/, prompts: [
    {title: 'Explain', text: 'Why is the sky blue? Explain it in three sentences.'},
    {title: 'List', text: 'List five things to pack for a day in the mountains.'},
    {title: 'Compare', text: 'Compare tea and coffee in a table of three rows.'}]},
];

const examplesFor = model => EXAMPLES.find(each => each.model.test(model)).prompts;

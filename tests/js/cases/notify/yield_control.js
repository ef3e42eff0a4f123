// yield_control() is a record of its own between the others, as often as it is called
text("a");
text(String(yield_control()));
yield_control("ignored");
notify("b");
await null;
yield_control.call(5);
text("c");
yield_control();

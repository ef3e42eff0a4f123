// the frames of everything that a class can hold
const show = (f) => {
  try {
    text(f());
  } catch (error) {
    text(error);
  }
};
const no = () => {
  throw new Error("no");
};
class Base {
  static made = 0;
  field = this.make();
  constructor() {
    Base.made++;
  }
  make() {
    return 1;
  }
  static create() {
    return no();
  }
  static get value() {
    return no();
  }
  #secret() {
    no();
  }
  open() {
    this.#secret();
  }
}
class Derived extends Base {
  make() {
    return no();
  }
}
class Throwing {
  constructor() {
    no();
  }
}
class Deep extends Throwing {
  constructor() {
    super();
  }
}
class Implicit extends Throwing {}
show(() => new Derived());
show(() => new Throwing());
show(() => new Deep());
show(() => new Implicit());
show(() => Base.create());
show(() => Base.value);
show(() => new Base().open());
show(
  () =>
    class {
      static {
        no();
      }
    },
);
show(
  () =>
    class {
      static field = no();
    },
);
show(() => class extends no() {});
show(
  () =>
    class {
      [no()]() {}
    },
);
show(
  () =>
    class A {
      static x = new A().y.z;
    },
);
show(() => Base());
show(
  () =>
    new (class extends Base {
      constructor() {} // eslint-disable-line constructor-super
    })(),
);
